#pragma once
// Errors of the server. They are exceptions, as in the C++ interface that the server uses; the route wrapper
// of server.cpp turns each into an answer, and none leaves it.
#include <stdexcept>
#include <string>
#include <utility>

namespace tessera::server {

/// The status in the log where the client has closed the connection, as nginx has it.
constexpr int kClientGone = 499;

/// An answer with a status of 400 or more, in OpenAI's format. The message must not quote a prompt.
class HttpError : public std::runtime_error {
  public:
    /// `param` names the field, or is empty; `code` is for programs, or empty.
    HttpError(int with_status, const std::string& message, std::string field = "", std::string with_code = "")
        : std::runtime_error(message),
          status(with_status),
          param(std::move(field)),
          code(std::move(with_code)) {}

    int status;
    std::string param, code;
    int retry_after_s = 0;  ///< > 0: sent as Retry-After
};

/// {"error": {"message", "type", "param", "code"}}.
std::string error_body(int status, const std::string& message, const std::string& param = "",
                       const std::string& code = "");

}  // namespace tessera::server
