#pragma once
// The tokens of a template and a position in them: the base of the parsers of expressions and of statements
// (parser.cpp).
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/strings.h"
#include "src/text/jinja/ast.h"
#include "src/text/jinja/lexer.h"

namespace tessera::jinja {

template <class T>
using Parsed = tl::expected<T, SyntaxError>;

// TSR_TRY for Parsed.
#define PARSE_TRY(decl, expression)                                                              \
    auto TSR_CONCAT(parse_try_, __LINE__) = (expression);                                        \
    if (!TSR_CONCAT(parse_try_, __LINE__))                                                       \
        return tl::unexpected<SyntaxError>(std::move(TSR_CONCAT(parse_try_, __LINE__).error())); \
    decl = std::move(*TSR_CONCAT(parse_try_, __LINE__))

#define PARSE_TRY_VOID(expression)                                                                  \
    do {                                                                                            \
        auto parse_try_void = (expression);                                                         \
        if (!parse_try_void) return tl::unexpected<SyntaxError>(std::move(parse_try_void.error())); \
    } while (0)

class TokenCursor {
  protected:
    explicit TokenCursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

    const Token& now() const { return tokens_[at_]; }
    const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    void advance() { at_ = std::min(at_ + 1, tokens_.size() - 1); }
    bool at_op(std::string_view op) const { return now().kind == TokenKind::Op && now().text == op; }
    bool at_name(std::string_view name) const { return now().kind == TokenKind::Name && now().text == name; }
    bool skip_op(std::string_view op) { return at_op(op) && (advance(), true); }
    bool skip_name(std::string_view name) { return at_name(name) && (advance(), true); }

    static std::string describe(const Token& token) {
        switch (token.kind) {
            case TokenKind::End:
                return "the end of the template";
            case TokenKind::BlockEnd:
                return "the end of the tag";
            case TokenKind::OutputEnd:
                return "the end of the output";
            default:
                return "'" + printable(token.text) + "'";
        }
    }

    tl::unexpected<SyntaxError> fail(std::string message) const {
        return fail_at(now().offset, std::move(message));
    }
    static tl::unexpected<SyntaxError> fail_at(uint32_t offset, std::string message) {
        return tl::unexpected<SyntaxError>({offset, std::move(message)});
    }
    tl::unexpected<SyntaxError> expected(const char* what) const {
        return fail(strf("expected %s, found %s", what, describe(now()).c_str()));
    }

    Parsed<void> expect_op(const char* op) {
        if (skip_op(op)) return {};
        return expected(strf("'%s'", op).c_str());
    }

    Parsed<void> expect_block_end() {
        if (now().kind != TokenKind::BlockEnd) return expected("the end of the tag");
        advance();
        return {};
    }

    Parsed<std::string> expect_name() {
        if (now().kind != TokenKind::Name) return expected("a name");
        std::string name = now().text;
        advance();
        return name;
    }

  private:
    std::vector<Token> tokens_;  // the last one is the end
    size_t at_ = 0;
};

}  // namespace tessera::jinja
