#pragma once
// How the server says no. Like the C++ interface it is a client of, it reports by exceptions; each ends in
// the route wrapper of server.cpp, which makes an answer of it, and passes no other boundary.
#include <stdexcept>
#include <string>
#include <utility>

namespace tessera::server {

/// A status that nobody reads, since the client has gone; as nginx logs it.
constexpr int kClientGone = 499;

/// An answer with a status of 400 or more, in OpenAI's form. The message must not repeat what a prompt says.
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
    int retry_after_s = 0;  ///< > 0: a header says so
};

/// {"error": {"message", "type", "param", "code"}}.
std::string error_body(int status, const std::string& message, const std::string& param = "",
                       const std::string& code = "");

}  // namespace tessera::server
