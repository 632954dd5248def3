#pragma once
// What the routes that write have in common: prompts, the fields of a generation, and where in an answer
// things stand.
#include <optional>
#include <string>
#include <vector>

#include "server/generation.h"

namespace tessera::server {

/// A text, token ids, or an array of at most `limit` such prompts (or of both mixed in one, as llama.cpp
/// takes them); each between 1 and n_ctx - 1 tokens. Throws HttpError 400, with both counts where one is too
/// long.
std::vector<std::vector<int32_t>> read_prompts(const Service& service, const Json& value,
                                               const std::string& path, size_t limit = 128);

/// Texts and token ids in one list, in order. TSR_ADD_SPECIAL is for the front of it alone. Throws HttpError
/// 400.
std::vector<int32_t> mixed_tokens(const Service& service, const Json& list, const std::string& path,
                                  unsigned flags = TSR_ADD_SPECIAL | TSR_PARSE_SPECIAL);

/// A list of LoRA adapters to apply. Throws HttpError 400 for any: the engine takes none.
void check_adapters(const Json& list, const std::string& path);

/// Throws HttpError 400 where it does not fit.
void check_length(const Service& service, size_t n_tokens, const std::string& path);

/// The engine's request from kGenerationFields and the sampling parameters; without tokens.
tessera_api::Request read_generation(const Service& service, const Request& request, const Fields& fields);

/// Whose a request is: `user`, or the header X-Client-Id.
std::string read_client(const Request& request, const Fields& fields);

/// Of the first of these fields that is there: how much is written. -1 is no limit, and so are none of them.
void read_max_tokens(const Fields& fields, std::initializer_list<const char*> names,
                     tessera_api::Request& out);
/// stream_options.include_usage.
bool wants_usage(const Fields& fields);

/// A grammar, as errors that name the field.
tessera_api::Grammar make_grammar(tsr_grammar_kind kind, const std::string& text, const std::string& path,
                                  const tsr_prompt* prompt = nullptr);
/// response_format, or nothing for text.
std::optional<tessera_api::Grammar> read_response_format(const Fields& fields, const tsr_prompt* prompt);

/// A token's text as it stands in logprobs; where it is no whole UTF-8, dump() replaces what is not.
std::string token_text(const Service& service, int32_t id);
std::string token_bytes(const Service& service, int32_t id);
/// As JSON has bytes: an array of numbers.
Json byte_list(const std::string& bytes);

/// JSON has no infinity: what cannot come is -9999, as OpenAI has it.
double json_log_p(float log_p);

/// Seconds since 1970, and an id of so many random digits behind the prefix.
int64_t unix_time();
std::string random_name(const std::string& prefix);

/// "data: ...\n\n".
std::string sse(const Json& data);
/// An error in the middle of a stream.
std::string sse_error(int status, const std::string& message);

}  // namespace tessera::server
