// WordPiece as in BERT: text is cleaned, lower-cased and stripped of marks, split at white space, punctuation
// and ideographs, and each word is matched from the left by the longest pieces. In the vocabulary, pieces at
// the beginning of a word start with U+2581. Next: unicode.h, tokenizer.cpp (special tokens).
#include <algorithm>

#include "common/utf8.h"
#include "src/text/scheme.h"
#include "src/text/space_symbol.h"
#include "src/text/text_index.h"
#include "src/text/unicode.h"

namespace tessera::text {

namespace {

constexpr size_t kMaxWordCharacters = 100;  // a longer word is unknown
constexpr uint32_t kReplacement = 0xFFFD;

class WordPieceScheme final : public SpaceSymbolScheme {
  public:
    explicit WordPieceScheme(const Vocab& vocab) : SpaceSymbolScheme(vocab) {}

    Result<void> load(const gguf::File& file);

    Result<void> encode_fragment(std::string_view text, bool at_boundary,
                                 std::vector<int32_t>& ids) const override;

  private:
    /// The word being read, with U+2581 in front.
    struct Word {
        std::string text;
        size_t n_characters = 0;
    };

    void add(uint32_t character, Word& word, std::vector<int32_t>& ids) const;
    void finish(Word& word, std::vector<int32_t>& ids) const;
    void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

    TextIndex pieces_;
    size_t max_piece_bytes_ = 0;
    bool lowers_ = true, strips_ = true;
};

Result<void> WordPieceScheme::load(const gguf::File& file) {
    TSR_TRY(lowers_, file.get_bool_or("tokenizer.ggml.normalizer.lowercase", true));
    TSR_TRY(strips_, file.get_bool_or("tokenizer.ggml.normalizer.strip_accents", lowers_));
    if (vocab_.special().unk == kNoToken)
        return fail(
            ErrorCode::Malformed,
            "key 'tokenizer.ggml.unknown_token_id': expected the unknown token of a WordPiece vocabulary, "
            "found none");
    pieces_.reserve(static_cast<size_t>(vocab_.size()));
    for (int32_t id = 0; id < vocab_.size(); id++) {
        const std::string_view text = vocab_.text(id);
        if (vocab_.is_hidden(id) || vocab_.type(id) == TokenType::Byte || text.empty()) continue;
        pieces_.add(text, id);
        max_piece_bytes_ = std::max(max_piece_bytes_, text.size());
    }
    return {};
}

Result<void> WordPieceScheme::encode_fragment(std::string_view text, bool, std::vector<int32_t>& ids) const {
    Word word;
    while (!text.empty()) {
        const utf8::Decoded c = utf8::decode(text);
        text.remove_prefix(c.n_bytes);
        const bool is_line_space = c.code_point == '\t' || c.code_point == '\n' || c.code_point == '\r';
        if (c.code_point == 0 || c.code_point == kReplacement ||
            (unicode::is_control(c.code_point) && !is_line_space))
            continue;
        const bool is_ideograph = unicode::is_ideograph(c.code_point);
        if (is_ideograph) finish(word, ids);
        if (!strips_) {
            add(c.code_point, word, ids);
        } else if (!unicode::is_mark(c.code_point)) {
            for (const uint32_t part : unicode::bare_form(c.code_point))
                if (part != 0) add(part, word, ids);
        }
        if (is_ideograph) finish(word, ids);
    }
    finish(word, ids);
    return {};
}

void WordPieceScheme::add(uint32_t character, Word& word, std::vector<int32_t>& ids) const {
    const bool is_punctuation = unicode::is_punctuation(character);
    if (is_punctuation || unicode::is_space(character)) finish(word, ids);
    if (unicode::is_space(character)) return;
    if (word.text.empty()) word.text = kSpaceSymbol;
    word.n_characters++;
    if (word.n_characters <= kMaxWordCharacters)
        utf8::append(word.text, lowers_ ? unicode::lower(character) : character);
    if (is_punctuation) finish(word, ids);
}

void WordPieceScheme::finish(Word& word, std::vector<int32_t>& ids) const {
    if (word.n_characters == 0) return;
    if (word.n_characters <= kMaxWordCharacters)
        encode_word(word.text, ids);
    else
        ids.push_back(vocab_.special().unk);
    word.text.clear();
    word.n_characters = 0;
}

/// A word that pieces do not cover is one unknown token.
void WordPieceScheme::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
    const size_t before = ids.size();
    while (!word.empty()) {
        int32_t id = kNoToken;
        size_t n = std::min(word.size(), max_piece_bytes_);
        for (; n > 0; n--) {
            const bool is_boundary = n == word.size() || (static_cast<uint8_t>(word[n]) & 0xC0) != 0x80;
            if (is_boundary && (id = pieces_.find(word.substr(0, n))) != kNoToken) break;
        }
        if (id == kNoToken) {
            ids.resize(before);
            ids.push_back(vocab_.special().unk);
            return;
        }
        ids.push_back(id);
        word.remove_prefix(n);
    }
}

}  // namespace

Result<std::unique_ptr<Scheme>> create_wordpiece_scheme(const Vocab& vocab, const gguf::File& file) {
    auto scheme = std::make_unique<WordPieceScheme>(vocab);
    TSR_TRY_VOID(scheme->load(file));
    return scheme;
}

}  // namespace tessera::text
