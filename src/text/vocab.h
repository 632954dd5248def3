#pragma once
// The vocabulary of a model: tokens and their types, special tokens, and whether text gets bos and eos.
// Splitting text into tokens is in tokenizer.h.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "common/pages.h"
#include "ggml-like/gguf/file.h"
#include "src/text/text_index.h"

namespace tessera::text {

/// Stands for "no such token" where an id is optional.
constexpr int32_t kNoToken = -1;

/// Numbered as in `tokenizer.ggml.token_type`.
enum class TokenType : uint8_t {
    Normal = 1,
    Unknown = 2,      ///< for text that the vocabulary cannot express
    Control = 3,      ///< controls the model; its spelling in a text matches only if the caller allows it
    UserDefined = 4,  ///< its spelling in a text always becomes this token
    Unused = 5,
    Byte = 6,  ///< one byte, spelled <0xNN>
};

/// Ids with a role, each a valid id or kNoToken.
struct SpecialIds {
    int32_t bos = kNoToken, eos = kNoToken, eot = kNoToken, eom = kNoToken;
    int32_t unk = kNoToken, pad = kNoToken, sep = kNoToken, cls = kNoToken, mask = kNoToken;
    int32_t fim_prefix = kNoToken, fim_suffix = kNoToken, fim_middle = kNoToken;
    int32_t fim_pad = kNoToken, fim_repo = kNoToken, fim_separator = kNoToken;
};

/// Immutable after load(); every member may be used from many threads. Owns its bytes: the File may be
/// destroyed.
class Vocab {
  public:
    /// Reads `tokenizer.ggml.*`. Errors (each names key, expectation and finding): no tokens; scores or types
    /// that differ in length from the tokens; a score that is not a number; a special id outside the
    /// vocabulary. Repaired with a warning: ids of 0xFFFFFFFF or -1 mean none; token types outside 1..6 and
    /// byte tokens not spelled <0xNN> become Normal; end markers typed Normal become Control; a "llama"
    /// vocabulary without scores takes -id, the order in which SentencePiece learned its merges. An absent
    /// key has the default of the kind of vocabulary, for "gpt2" that of its pre-tokenizer.
    static Result<Vocab> load(const gguf::File& file);

    Vocab(Vocab&&) = default;
    Vocab& operator=(Vocab&&) = default;
    Vocab(const Vocab&) = delete;
    Vocab& operator=(const Vocab&) = delete;

    int32_t size() const { return static_cast<int32_t>(texts_.size()); }
    bool contains(int32_t id) const { return id >= 0 && id < size(); }

    /// The spelling in the file (for the token's bytes see Tokenizer::token_bytes). The id must be valid.
    std::string_view text(int32_t id) const { return texts_[static_cast<size_t>(id)]; }
    /// Total size of all spellings.
    size_t n_bytes() const { return bytes_.size(); }
    float score(int32_t id) const { return scores_[static_cast<size_t>(id)]; }
    TokenType type(int32_t id) const { return types_[static_cast<size_t>(id)]; }
    /// Control and Unknown: tokens without text.
    bool is_hidden(int32_t id) const {
        return type(id) == TokenType::Control || type(id) == TokenType::Unknown;
    }
    /// The byte of a Byte token.
    uint8_t byte_of(int32_t id) const;

    /// The lowest id with this spelling, or kNoToken. O(1).
    int32_t find(std::string_view text) const;
    /// Prefetches the memory that find() reads first.
    [[gnu::always_inline]] void prefetch(std::string_view text) const { ids_.prefetch(text); }

    const SpecialIds& special() const { return special_; }
    /// End of generation: eos, eot, eom and the well-known end markers; ascending.
    std::span<const int32_t> end_ids() const { return end_ids_; }
    bool is_end(int32_t id) const;

    /// `tokenizer.ggml.model` ("llama", "gpt2", ...) and `.pre` (empty if absent).
    const std::string& model() const { return model_; }
    const std::string& pre() const { return pre_; }

    /// Whether encoding adds bos, eos; false if there is no such token.
    bool add_bos() const { return add_bos_; }
    bool add_eos() const { return add_eos_; }
    /// Whether it adds sep after the text, before eos; false if there is no such token.
    bool add_sep() const { return add_sep_; }
    /// Whether a space is added in front of text, at its start and after special tokens.
    bool add_space_prefix() const { return add_space_prefix_; }
    /// Whether runs of spaces are collapsed and spaces at both ends removed.
    bool remove_extra_whitespaces() const { return remove_extra_whitespaces_; }
    /// Whether this token absorbs white space after its spelling in a text.
    bool strips_right(int32_t id) const { return strips_right_ && !keeps_right_space(id); }

  private:
    Vocab() = default;
    Result<void> load_tokens(const gguf::File& file);
    Result<void> load_scores(const gguf::File& file);
    Result<void> load_types(const gguf::File& file);
    Result<void> load_special_ids(const gguf::File& file);
    Result<void> load_flags(const gguf::File& file);
    void index_texts();
    void settle_markers();
    void find_roles_by_name();
    void collect_end_ids();
    bool keeps_right_space(int32_t id) const;

    std::string model_, pre_;
    PageVector<char> bytes_;  // all spellings, concatenated
    PageVector<std::string_view> texts_;
    std::vector<float> scores_;
    std::vector<TokenType> types_;
    TextIndex ids_;
    SpecialIds special_;
    std::vector<int32_t> end_ids_;
    bool add_bos_ = false, add_eos_ = false, add_sep_ = false;
    bool add_space_prefix_ = false, remove_extra_whitespaces_ = false, strips_right_ = false;
};

}  // namespace tessera::text
