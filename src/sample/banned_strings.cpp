// banned_strings: bans every token that alone contains a banned string. A string that spans several tokens is
// found when its last token is drawn; then generation backs up to its beginning: string_ban.h.
#include "src/sample/byte_matcher.h"
#include "src/sample/sampler.h"
#include "src/sample/string_list.h"

namespace tessera::sample {

extern const SamplerInfo kBannedStrings;

namespace {

Result<void> check_banned_strings(std::string_view text) {
    const auto strings = parse_string_list(text);
    if (!strings) return fail_in("banned_strings", strings.error());
    return {};
}

constexpr ParamInfo kBannedStringsParams[] = {
    {.name = "banned_strings",
     .kind = ParamKind::List,
     .form = "STRING,STRING,...",
     .check = check_banned_strings,
     .help = "Strings that must not appear; when one does, generation backs up and chooses other tokens."},
};

class BannedStrings final : public Sampler {
  public:
    explicit BannedStrings(std::vector<int32_t> ids) : ids_(std::move(ids)) {}
    void apply(Candidates& candidates, Context&) override { candidates.ban(ids_); }
    std::unique_ptr<Sampler> clone() const override { return std::make_unique<BannedStrings>(*this); }

  private:
    std::vector<int32_t> ids_;  // ascending
};

Result<std::unique_ptr<Sampler>> make_banned_strings(const Params& params, const Setting& setting) {
    const std::vector<std::string> strings = params.list("banned_strings");
    if (strings.empty()) return nullptr;
    TSR_TRY(const text::Tokenizer* tokenizer, need_tokenizer(setting, "banned_strings"));
    ByteMatcher matcher(strings);
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < setting.n_vocab; id++) {
        matcher.reset();
        if (matcher.push_all(tokenizer->token_bytes(id))) ids.push_back(id);
    }
    return std::make_unique<BannedStrings>(std::move(ids));
}

}  // namespace

constexpr SamplerInfo kBannedStrings = {"banned_strings",
                                        "bans tokens that contain a banned string",
                                        kBannedStringsParams,
                                        make_banned_strings,
                                        0,
                                        true};

}  // namespace tessera::sample
