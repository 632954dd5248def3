// The parser of statements: a table of their names with one function each. Expressions are in
// expression_parser.h.
#include "src/text/jinja/parser.h"

#include "src/text/jinja/expression_parser.h"

namespace tessera::jinja {

namespace {

class Parser : ExpressionParser {
  public:
    explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

    Parsed<Program> run() {
        PARSE_TRY(program_.body, body({}));
        return std::move(program_);
    }

  private:
    // Parses up to a block tag that begins with one of `ends`, which is then the current token; without ends,
    // up to the end of the template.
    Parsed<Body> body(Words ends) {
        if (++stmt_depth_ > kMaxStmtDepth)
            return fail(strf("expected at most %u blocks inside each other", kMaxStmtDepth));
        Body out;
        for (;;) {
            const Token& token = now();
            if (token.kind == TokenKind::End) {
                if (ends.size() == 0) break;
                return unclosed();
            }
            if (token.kind == TokenKind::Data) {
                auto stmt = statement_node(StmtKind::Data);
                stmt->text = token.text;
                out.push_back(std::move(stmt));
                advance();
            } else if (token.kind == TokenKind::OutputBegin) {
                auto stmt = statement_node(StmtKind::Output);
                advance();
                PARSE_TRY(ExprPtr value, tuple(true, {}, false));
                stmt->exprs.push_back(std::move(value));
                if (now().kind != TokenKind::OutputEnd) return expected("the end of the output");
                advance();
                out.push_back(std::move(stmt));
            } else {
                advance();
                if (now().kind == TokenKind::Name &&
                    std::find(ends.begin(), ends.end(), now().text) != ends.end())
                    break;
                PARSE_TRY(auto stmt, statement());
                out.push_back(std::move(stmt));
            }
        }
        stmt_depth_--;
        return out;
    }

    tl::unexpected<SyntaxError> unclosed() const {
        return fail_at(open_.back().second,
                       strf("the '%s' block that begins here has no end", open_.back().first.c_str()));
    }

    std::unique_ptr<Stmt> statement_node(StmtKind kind) const {
        auto stmt = std::make_unique<Stmt>();
        stmt->kind = kind;
        stmt->offset = now().offset;
        return stmt;
    }

    using StmtPtr = Parsed<std::unique_ptr<Stmt>>;
    struct StatementRow {
        const char* name;
        StmtPtr (Parser::*parse)();
    };
    static constexpr size_t kStatements = 13;
    static const StatementRow kRows[kStatements];

    StmtPtr statement() {
        if (now().kind != TokenKind::Name) return expected("the name of a statement");
        for (const StatementRow& row : kRows) {
            if (!at_name(row.name)) continue;
            open_.emplace_back(row.name, now().offset);
            PARSE_TRY(auto stmt, (this->*row.parse)());
            open_.pop_back();
            return stmt;
        }
        for (const char* word : {"include", "import", "from", "extends"})
            if (at_name(word)) return fail(strf("'%s' is not supported: a chat template stands alone", word));
        std::vector<std::string_view> names;
        for (const StatementRow& row : kRows) names.emplace_back(row.name);
        const std::string_view near = nearest_name(now().text, names);
        std::string hint = near.empty() ? "" : strf("; did you mean '%s'?", std::string(near).c_str());
        if (!open_.empty()) hint += strf(" (the innermost open block is '%s')", open_.back().first.c_str());
        return fail(strf("unknown statement %s%s", describe(now()).c_str(), hint.c_str()));
    }

    // The end tag of a block: its name is the current token.
    Parsed<void> finish_block() {
        advance();
        return expect_block_end();
    }

    StmtPtr if_statement() {
        auto stmt = statement_node(StmtKind::If);
        for (;;) {
            advance();
            Branch branch;
            PARSE_TRY(branch.condition, tuple(false, {}, false));
            PARSE_TRY_VOID(expect_block_end());
            PARSE_TRY(branch.body, body({"elif", "else", "endif"}));
            stmt->branches.push_back(std::move(branch));
            if (!at_name("elif")) break;
        }
        if (skip_name("else")) {
            PARSE_TRY_VOID(expect_block_end());
            Branch branch;
            PARSE_TRY(branch.body, body({"endif"}));
            stmt->branches.push_back(std::move(branch));
        }
        PARSE_TRY_VOID(finish_block());
        return stmt;
    }

    StmtPtr for_statement() {
        auto stmt = statement_node(StmtKind::For);
        advance();
        PARSE_TRY(stmt->target, target(false));
        if (!skip_name("in")) return expected("'in'");
        PARSE_TRY(ExprPtr iterable, tuple(false, {"recursive"}, false));
        stmt->exprs.push_back(std::move(iterable));
        if (skip_name("if")) {
            PARSE_TRY(stmt->filter, expression());
        }
        stmt->recursive = skip_name("recursive");
        PARSE_TRY_VOID(expect_block_end());
        loops_.push_back(&stmt->uses_loop);
        PARSE_TRY(stmt->body, body({"endfor", "else"}));
        loops_.pop_back();
        if (skip_name("else")) {
            PARSE_TRY_VOID(expect_block_end());
            PARSE_TRY(stmt->otherwise, body({"endfor"}));
        }
        PARSE_TRY_VOID(finish_block());
        return stmt;
    }

    // Comma-separated names, possibly in brackets.
    Parsed<Target> target(bool may_be_member) {
        const Level level(expr_depth_);
        PARSE_TRY_VOID(check_level());
        Target whole;
        whole.offset = now().offset;
        bool has_comma = false;
        do {
            if (has_comma && (at_op(")") || at_op("=") || at_name("in") || now().kind == TokenKind::BlockEnd))
                break;
            Target part;
            part.offset = now().offset;
            if (at_op("(") || at_op("[")) {
                const char* close = at_op("(") ? ")" : "]";
                advance();
                PARSE_TRY(part, target(may_be_member));
                PARSE_TRY_VOID(expect_op(close));
            } else {
                PARSE_TRY(part.name, expect_name());
                if (Words words = {"true", "True", "false", "False", "none", "None"};
                    std::find(words.begin(), words.end(), part.name) != words.end())
                    return fail_at(part.offset,
                                   strf("expected a name, found the constant '%s'", part.name.c_str()));
                part.id = id_of(part.name);
                if (may_be_member && skip_op(".")) {
                    PARSE_TRY(part.member, expect_name());
                }
            }
            whole.parts.push_back(std::move(part));
        } while (skip_op(",") && (has_comma = true));
        if (!has_comma && whole.parts.size() == 1) {
            Target only = std::move(whole.parts[0]);
            return only;
        }
        return whole;
    }

    StmtPtr set_statement() {
        auto stmt = statement_node(StmtKind::Set);
        advance();
        PARSE_TRY(stmt->target, target(true));
        if (skip_op("=")) {
            PARSE_TRY(ExprPtr value, tuple(true, {}, false));
            stmt->exprs.push_back(std::move(value));
            PARSE_TRY_VOID(expect_block_end());
            return stmt;
        }
        stmt->kind = StmtKind::SetBlock;
        if (skip_op("|")) {
            PARSE_TRY(stmt->filter, filter_chain());
        }
        PARSE_TRY_VOID(expect_block_end());
        PARSE_TRY(stmt->body, body({"endset"}));
        PARSE_TRY_VOID(finish_block());
        return stmt;
    }

    // "(a, b=1)", if there are brackets.
    Parsed<void> parameters(std::vector<Param>& params) {
        if (!skip_op("(")) return {};
        while (!at_op(")")) {
            Param param;
            PARSE_TRY(param.name, expect_name());
            param.id = id_of(param.name);
            if (skip_op("=")) {
                PARSE_TRY(param.preset, expression());
            } else if (!params.empty() && params.back().preset) {
                return fail("expected a default value, as the parameter before has one");
            }
            params.push_back(std::move(param));
            if (!skip_op(",")) break;
        }
        return expect_op(")");
    }

    Parsed<void> macro_body(Stmt& stmt, std::string_view end) {
        PARSE_TRY_VOID(expect_block_end());
        macros_.push_back(&stmt.uses);
        PARSE_TRY(stmt.body, body({end}));
        macros_.pop_back();
        return finish_block();
    }

    StmtPtr macro_statement() {
        auto stmt = statement_node(StmtKind::Macro);
        advance();
        PARSE_TRY(stmt->text, expect_name());
        stmt->id = id_of(stmt->text);
        if (!at_op("(")) return expected("'('");
        PARSE_TRY_VOID(parameters(stmt->params));
        PARSE_TRY_VOID(macro_body(*stmt, "endmacro"));
        return stmt;
    }

    StmtPtr call_statement() {
        auto stmt = statement_node(StmtKind::CallBlock);
        advance();
        stmt->text = "caller";
        PARSE_TRY_VOID(parameters(stmt->params));
        PARSE_TRY(ExprPtr value, expression());
        if (value->kind != ExprKind::Call)
            return fail_at(value->offset, "expected a call, found another expression");
        stmt->exprs.push_back(std::move(value));
        PARSE_TRY_VOID(macro_body(*stmt, "endcall"));
        return stmt;
    }

    StmtPtr filter_statement() {
        auto stmt = statement_node(StmtKind::Filter);
        advance();
        PARSE_TRY(stmt->filter, filter_chain());
        PARSE_TRY_VOID(expect_block_end());
        PARSE_TRY(stmt->body, body({"endfilter"}));
        PARSE_TRY_VOID(finish_block());
        return stmt;
    }

    StmtPtr with_statement() {
        auto stmt = statement_node(StmtKind::With);
        advance();
        while (now().kind != TokenKind::BlockEnd) {
            Param param;
            PARSE_TRY(param.name, expect_name());
            param.id = id_of(param.name);
            PARSE_TRY_VOID(expect_op("="));
            PARSE_TRY(param.preset, expression());
            stmt->params.push_back(std::move(param));
            if (!skip_op(",")) break;
        }
        PARSE_TRY_VOID(expect_block_end());
        PARSE_TRY(stmt->body, body({"endwith"}));
        PARSE_TRY_VOID(finish_block());
        return stmt;
    }

    StmtPtr scope(std::string_view end, bool named) {
        auto stmt = statement_node(StmtKind::Scope);
        advance();
        if (named) {
            PARSE_TRY(stmt->text, expect_name());
        }
        PARSE_TRY_VOID(expect_block_end());
        PARSE_TRY(stmt->body, body({end}));
        advance();
        if (named && now().kind == TokenKind::Name) advance();
        PARSE_TRY_VOID(expect_block_end());
        return stmt;
    }
    StmtPtr generation_statement() { return scope("endgeneration", false); }
    StmtPtr block_statement() { return scope("endblock", true); }

    StmtPtr autoescape_statement() {
        auto stmt = statement_node(StmtKind::Scope);
        advance();
        if (!at_name("false") && !at_name("False")) return expected("'false': nothing is escaped in prompts");
        advance();
        PARSE_TRY_VOID(expect_block_end());
        PARSE_TRY(stmt->body, body({"endautoescape"}));
        PARSE_TRY_VOID(finish_block());
        return stmt;
    }

    StmtPtr print_statement() {
        auto stmt = statement_node(StmtKind::Output);
        advance();
        PARSE_TRY(ExprPtr value, tuple(true, {}, false));
        stmt->exprs.push_back(std::move(value));
        PARSE_TRY_VOID(expect_block_end());
        return stmt;
    }

    StmtPtr jump(StmtKind kind) {
        auto stmt = statement_node(kind);
        // A macro's body is not part of the loop around it.
        if (loops_.size() == loops_before_macro())
            return fail(strf("'%s' outside of a loop", now().text.c_str()));
        advance();
        PARSE_TRY_VOID(expect_block_end());
        return stmt;
    }
    StmtPtr break_statement() { return jump(StmtKind::Break); }
    StmtPtr continue_statement() { return jump(StmtKind::Continue); }

    // Number of loops open around the innermost macro.
    size_t loops_before_macro() const {
        size_t n = 0;
        for (size_t i = open_.size(); i-- > 0;)
            if (open_[i].first == "macro" || open_[i].first == "call") {
                for (size_t j = 0; j < i; j++) n += open_[j].first == "for";
                break;
            }
        return std::min(n, loops_.size());
    }

    uint32_t stmt_depth_ = 0;
    std::vector<std::pair<std::string, uint32_t>> open_;  // statements being parsed: name, offset
};

const Parser::StatementRow Parser::kRows[kStatements] = {
    {"if", &Parser::if_statement},
    {"for", &Parser::for_statement},
    {"set", &Parser::set_statement},
    {"macro", &Parser::macro_statement},
    {"call", &Parser::call_statement},
    {"filter", &Parser::filter_statement},
    {"with", &Parser::with_statement},
    {"generation", &Parser::generation_statement},
    {"block", &Parser::block_statement},
    {"autoescape", &Parser::autoescape_statement},
    {"print", &Parser::print_statement},
    {"break", &Parser::break_statement},
    {"continue", &Parser::continue_statement},
};

}  // namespace

tl::expected<Program, SyntaxError> parse(std::string_view source) {
    auto tokens = lex(source);
    if (!tokens) return tl::unexpected<SyntaxError>(std::move(tokens.error()));
    return Parser(std::move(*tokens)).run();
}

}  // namespace tessera::jinja
