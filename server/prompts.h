#pragma once
// Shared by the generating routes: prompts, the fields of a generation, and parts of answers.
#include <optional>
#include <string>
#include <vector>

#include "server/generation.h"

namespace tessera::server {

/// A text, token ids, or an array of at most `limit` such prompts (or of both mixed in one prompt, as in
/// llama.cpp); each has 1 to n_ctx - 1 tokens. Throws HttpError 400, with both counts if a prompt is too
/// long.
std::vector<std::vector<int32_t>> read_prompts(const Service& service, const Json& value,
                                               const std::string& path, size_t limit = 128);

/// Tokens of texts and token ids mixed in one list. TSR_ADD_SPECIAL applies to its beginning only. Throws
/// HttpError 400.
std::vector<int32_t> mixed_tokens(const Service& service, const Json& list, const std::string& path,
                                  unsigned flags = TSR_ADD_SPECIAL | TSR_PARSE_SPECIAL);

/// Checks a list of LoRA adapters. Throws HttpError 400 for any adapter: the engine has none.
void check_adapters(const Json& list, const std::string& path);

/// Throws HttpError 400 if that many tokens do not fit the context.
void check_length(const Service& service, size_t n_tokens, const std::string& path);

/// The engine's request from kGenerationFields and the sampling parameters; without tokens.
tessera_api::Request read_generation(const Service& service, const Request& request, const Fields& fields);

/// The client that a request counts for: `user`, or the header X-Client-Id.
std::string read_client(const Request& request, const Fields& fields);

/// Sets the token limit from the first of these fields that is present. -1, or none of them: no limit.
void read_max_tokens(const Fields& fields, std::initializer_list<const char*> names,
                     tessera_api::Request& out);
/// stream_options.include_usage.
bool wants_usage(const Fields& fields);

/// A compiled grammar. Throws HttpError 400 naming the field.
tessera_api::Grammar make_grammar(tsr_grammar_kind kind, const std::string& text, const std::string& path,
                                  const tsr_prompt* prompt = nullptr);
/// The constraint of grammar, regex, json_schema or response_format; nothing for plain text.
std::optional<tessera_api::Grammar> read_response_format(const Fields& fields, const tsr_prompt* prompt);

/// A token's text for logprobs; dump() replaces incomplete UTF-8.
std::string token_text(const Service& service, int32_t id);
std::string token_bytes(const Service& service, int32_t id);
/// Bytes as an array of numbers.
Json byte_list(const std::string& bytes);

/// A log probability; -infinity becomes -9999, as in OpenAI's interface.
double json_log_p(float log_p);

/// Seconds since 1970. random_name(): the prefix and 16 random hexadecimal digits.
int64_t unix_time();
std::string random_name(const std::string& prefix);

/// "data: ...\n\n".
std::string sse(const Json& data);
/// An error as the last event of a stream.
std::string sse_error(int status, const std::string& message);

}  // namespace tessera::server
