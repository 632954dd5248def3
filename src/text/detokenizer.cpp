// The streaming inverse of Tokenizer::encode. If the vocabulary says so, encoding adds a space in front of
// the text and after every special token; decoding removes it there. Next: tokenizer.cpp, common/utf8.h.
#include "src/text/detokenizer.h"

#include "common/utf8.h"

namespace tessera::text {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, DecodeOptions options)
    : tokenizer_(&tokenizer),
      options_(options),
      drop_space_(options.at_text_start && tokenizer.vocab().add_space_prefix()) {}

std::string_view Detokenizer::push(int32_t id) {
    out_.clear();
    const Vocab& vocab = tokenizer_->vocab();
    if (!vocab.contains(id)) return out_;
    std::string_view bytes = tokenizer_->token_bytes(id);
    if (vocab.is_hidden(id) || vocab.type(id) == TokenType::UserDefined) {
        emit_rest();  // no character continues across a special token
        if (!vocab.is_hidden(id) || options_.show_special) utf8::append_sanitized(out_, bytes);
        drop_space_ = vocab.add_space_prefix();
        return out_;
    }
    if (drop_space_ && !bytes.empty()) {
        if (bytes.front() == ' ') bytes.remove_prefix(1);
        drop_space_ = false;
    }
    pending_ += bytes;
    emit_complete();
    return out_;
}

std::string_view Detokenizer::flush() {
    out_.clear();
    emit_rest();
    drop_space_ = options_.at_text_start && tokenizer_->vocab().add_space_prefix();
    return out_;
}

void Detokenizer::emit_complete() {
    const size_t n = utf8::complete_prefix(pending_);
    utf8::append_sanitized(out_, std::string_view(pending_).substr(0, n));
    pending_.erase(0, n);
}

void Detokenizer::emit_rest() {
    utf8::append_sanitized(out_, pending_);
    pending_.clear();
}

}  // namespace tessera::text
