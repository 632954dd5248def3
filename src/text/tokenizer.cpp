// The common part of all schemes: splits special tokens off the text, adds bos and eos, and holds the bytes
// of each token. Assumes a checked Vocab. Next: spm.cpp (a scheme), detokenizer.cpp (ids to text).
#include "src/text/tokenizer.h"

#include "common/strings.h"
#include "src/text/detokenizer.h"
#include "src/text/scheme.h"

namespace tessera::text {

namespace {

struct SchemeEntry {
    std::string_view model;  // tokenizer.ggml.model
    Result<std::unique_ptr<Scheme>> (*create)(const Vocab& vocab, const gguf::File& file);
};

constexpr SchemeEntry kSchemes[] = {
    {"llama", create_spm_scheme},
    {"gpt2", create_bpe_scheme},
    {"t5", create_unigram_scheme},
    {"bert", create_wordpiece_scheme},
};

Result<std::unique_ptr<Scheme>> create_scheme(const Vocab& vocab, const gguf::File& file) {
    std::string supported;
    for (const SchemeEntry& entry : kSchemes) {
        if (entry.model == vocab.model()) return entry.create(vocab, file);
        if (!supported.empty()) supported += ", ";
        supported += entry.model;
    }
    return fail(ErrorCode::Unsupported, "key 'tokenizer.ggml.model': supported kinds: %s; found '%s'",
                supported.c_str(), printable(vocab.model()).c_str());
}

bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

Tokenizer::Tokenizer(Vocab vocab) : vocab_(std::move(vocab)), specials_(vocab_) {}

Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const gguf::File& file) {
    TSR_TRY(Vocab vocab, Vocab::load(file));
    std::shared_ptr<Tokenizer> tokenizer(new Tokenizer(std::move(vocab)));
    const Vocab& v = tokenizer->vocab_;
    TSR_TRY(tokenizer->scheme_, create_scheme(v, file));
    tokenizer->bytes_.reserve(v.n_bytes());
    tokenizer->byte_end_.reserve(static_cast<size_t>(v.size()));
    for (int32_t id = 0; id < v.size(); id++) {
        std::string& bytes = tokenizer->bytes_;
        const TokenType type = v.type(id);
        if (type == TokenType::Byte)
            bytes += static_cast<char>(v.byte_of(id));
        else if (type == TokenType::UserDefined || v.is_hidden(id))
            bytes += v.text(id);
        else
            tokenizer->scheme_->append_bytes(id, bytes);
        tokenizer->byte_end_.push_back(bytes.size());
    }
    return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
    std::vector<int32_t> ids;
    if (options.add_special && vocab_.add_bos()) ids.push_back(vocab_.special().bos);
    bool at_boundary = true;
    for (size_t pos = 0; pos < text.size();) {
        const SpecialMatcher::Match match = specials_.find(text, pos, options.parse_special);
        const size_t end = match.n_bytes > 0 ? match.pos : text.size();
        if (end > pos) {
            TSR_TRY_VOID(scheme_->encode_fragment(text.substr(pos, end - pos), at_boundary, ids));
            at_boundary = false;
        }
        pos = end;
        if (match.n_bytes == 0) continue;
        ids.push_back(match.id);
        at_boundary = true;
        pos += match.n_bytes;
        if (vocab_.strips_right(match.id))
            while (pos < text.size() && is_ascii_space(text[pos])) pos++;
    }
    if (options.add_special && vocab_.add_sep()) ids.push_back(vocab_.special().sep);
    if (options.add_special && vocab_.add_eos()) ids.push_back(vocab_.special().eos);
    return ids;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
    if (!vocab_.contains(id)) return {};
    const size_t begin = id > 0 ? byte_end_[static_cast<size_t>(id) - 1] : 0;
    return std::string_view(bytes_).substr(begin, byte_end_[static_cast<size_t>(id)] - begin);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
    Detokenizer detokenizer(*this, options);
    std::string text;
    for (const int32_t id : ids) text += detokenizer.push(id);
    text += detokenizer.flush();
    return text;
}

}  // namespace tessera::text
