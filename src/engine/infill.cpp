// Orders the parts as infill models were trained: special tokens of the vocabulary (Vocab::special) with
// separately tokenized texts between them.
#include "src/engine/infill.h"

#include <string>

namespace tessera::engine {

namespace {

class Builder {
  public:
    explicit Builder(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

    void mark(int32_t id) {
        if (id != text::kNoToken) ids_.push_back(id);
    }
    Result<void> add(std::string_view text) {
        if (text.empty()) return {};
        TSR_TRY(const auto ids, tokenizer_.encode(text, {.add_special = false}));
        ids_.insert(ids_.end(), ids.begin(), ids.end());
        return {};
    }
    Result<void> add_line(std::string_view text) {
        return text.empty() ? Result<void>() : add(std::string(text) + "\n");
    }
    std::vector<int32_t> take() { return std::move(ids_); }

  private:
    const text::Tokenizer& tokenizer_;
    std::vector<int32_t> ids_;
};

Result<void> add_repository(Builder& out, const text::SpecialIds& special, const Infill& infill) {
    if (special.fim_repo != text::kNoToken && !infill.repo.empty()) {
        out.mark(special.fim_repo);
        TSR_TRY_VOID(out.add_line(infill.repo));
    }
    for (const InfillFile& file : infill.files) {
        out.mark(special.fim_separator);
        TSR_TRY_VOID(out.add_line(file.name));
        TSR_TRY_VOID(out.add_line(file.text));
    }
    if (special.fim_separator == text::kNoToken || infill.name.empty()) return {};
    out.mark(special.fim_separator);
    return out.add_line(infill.name);
}

}  // namespace

Result<std::vector<int32_t>> infill_tokens(const text::Tokenizer& tokenizer, const Infill& infill) {
    const text::SpecialIds& special = tokenizer.vocab().special();
    const struct {
        const char* name;
        int32_t id;
    } needed[] = {
        {"prefix", special.fim_prefix}, {"suffix", special.fim_suffix}, {"middle", special.fim_middle}};
    for (const auto& [name, id] : needed)
        if (id == text::kNoToken)
            return fail(ErrorCode::Unsupported,
                        "infill: expected a vocabulary with a token for the %s, found none (the model was "
                        "not trained for infill)",
                        name);
    Builder out(tokenizer);
    if (tokenizer.vocab().add_bos()) out.mark(special.bos);
    TSR_TRY_VOID(add_repository(out, special, infill));
    for (const bool is_suffix : {infill.suffix_first, !infill.suffix_first}) {
        out.mark(is_suffix ? special.fim_suffix : special.fim_prefix);
        TSR_TRY_VOID(out.add(is_suffix ? infill.suffix : infill.prefix));
    }
    out.mark(special.fim_middle);
    TSR_TRY_VOID(out.add(infill.middle));
    return out.take();
}

}  // namespace tessera::engine
