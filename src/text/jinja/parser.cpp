// The parser: recursive descent over the tokens, one function a level of precedence (expressions) or
// statement. Recursion is bounded here (enter/leave) and chains that grow to the left are bounded by the
// depth of their tree.
#include "src/text/jinja/parser.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <unordered_map>

#include "common/strings.h"

namespace tessera::jinja {

namespace {

using Expected = tl::expected<ExprPtr, SyntaxError>;
template <class T>
using Parsed = tl::expected<T, SyntaxError>;

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

using Words = std::initializer_list<std::string_view>;

std::optional<Integer> parse_integer(const std::string& digits) {
    int base = 10;
    size_t at = 0;
    if (digits.size() > 2 && digits[0] == '0') {
        const char c = digits[1];
        base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
        at = base == 10 ? 0 : 2;
    }
    Integer value = 0;
    for (; at < digits.size(); at++) {
        const char c = digits[at];
        const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
        if (__builtin_mul_overflow(value, static_cast<Integer>(base), &value)) return std::nullopt;
        if (__builtin_add_overflow(value, static_cast<Integer>(digit), &value)) return std::nullopt;
    }
    return value;
}

struct OpRow {
    std::string_view text;
    Op op;
};
constexpr OpRow kAdditive[] = {{"+", Op::Add}, {"-", Op::Sub}};
constexpr OpRow kMultiplicative[] = {{"*", Op::Mul}, {"/", Op::Div}, {"//", Op::FloorDiv}, {"%", Op::Mod}};
constexpr OpRow kPower[] = {{"**", Op::Pow}};
constexpr OpRow kComparisons[] = {{"==", Op::Eq}, {"!=", Op::Ne}, {"<", Op::Lt},
                                  {"<=", Op::Le}, {">", Op::Gt},  {">=", Op::Ge}};

class Parser {
  public:
    explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
        for (const char* name : {"loop", "varargs", "kwargs", "caller"}) id_of(name);
    }

    Parsed<Program> run() {
        PARSE_TRY(program_.body, body({}));
        return std::move(program_);
    }

  private:
    // Tokens.
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

    uint32_t id_of(const std::string& name) {
        const auto [it, added] = ids_.try_emplace(name, static_cast<uint32_t>(program_.names.size()));
        if (added) program_.names.push_back(name);
        return it->second;
    }

    // Nodes.
    static ExprPtr make(ExprKind kind, uint32_t offset) {
        auto expr = std::make_unique<Expr>();
        expr->kind = kind;
        expr->offset = offset;
        return expr;
    }

    static void adopt(Expr& parent, ExprPtr child) {
        if (child) parent.depth = std::max(parent.depth, child->depth + 1);
        parent.args.push_back(std::move(child));
    }

    static Expected bounded(ExprPtr expr) {
        if (expr->depth > kMaxExprDepth)
            return fail_at(
                expr->offset,
                strf("expected an expression of at most %u levels, found a deeper one", kMaxExprDepth));
        return expr;
    }

    struct Level {
        uint32_t& depth;
        explicit Level(uint32_t& depth_) : depth(++depth_) {}
        ~Level() { depth--; }
        Level(const Level&) = delete;
        Level& operator=(const Level&) = delete;
    };

    Parsed<void> check_level() const {
        if (expr_depth_ <= kMaxExprDepth) return {};
        return fail(strf("expected at most %u levels of brackets and operators", kMaxExprDepth));
    }

    // Expressions, from the loosest to the tightest.
    Expected expression(bool with_choice = true) {
        const Level level(expr_depth_);
        PARSE_TRY_VOID(check_level());
        PARSE_TRY(ExprPtr left, disjunction());
        while (with_choice && at_name("if")) {
            auto choice = make(ExprKind::Choice, now().offset);
            advance();
            PARSE_TRY(ExprPtr condition, disjunction());
            ExprPtr otherwise;
            if (skip_name("else")) {
                PARSE_TRY(otherwise, expression());
            }
            adopt(*choice, std::move(left));
            adopt(*choice, std::move(condition));
            adopt(*choice, std::move(otherwise));
            PARSE_TRY(left, bounded(std::move(choice)));
        }
        return left;
    }

    // operand (word operand)*, kept flat.
    template <class Operand, class Skip>
    Expected flat(ExprKind kind, Operand operand, Skip skip) {
        PARSE_TRY(ExprPtr first, operand());
        const uint32_t offset = now().offset;
        if (!skip()) return first;
        auto node = make(kind, offset);
        adopt(*node, std::move(first));
        do {
            PARSE_TRY(ExprPtr part, operand());
            adopt(*node, std::move(part));
        } while (skip());
        return bounded(std::move(node));
    }

    Expected disjunction() {
        return flat(
            ExprKind::Or, [this] { return conjunction(); }, [this] { return skip_name("or"); });
    }
    Expected conjunction() {
        return flat(
            ExprKind::And, [this] { return negation(); }, [this] { return skip_name("and"); });
    }

    Expected negation() {
        if (!at_name("not")) return comparison();
        const Level level(expr_depth_);
        PARSE_TRY_VOID(check_level());
        auto node = make(ExprKind::Not, now().offset);
        advance();
        PARSE_TRY(ExprPtr operand, negation());
        adopt(*node, std::move(operand));
        return bounded(std::move(node));
    }

    std::optional<Op> comparison_op() {
        if (now().kind == TokenKind::Op) {
            for (const OpRow& row : kComparisons)
                if (skip_op(row.text)) return row.op;
        }
        if (skip_name("in")) return Op::In;
        if (at_name("not") && next().kind == TokenKind::Name && next().text == "in") {
            advance();
            advance();
            return Op::NotIn;
        }
        return std::nullopt;
    }

    Expected comparison() {
        PARSE_TRY(ExprPtr first, additive());
        const uint32_t offset = now().offset;
        std::optional<Op> op = comparison_op();
        if (!op) return first;
        auto node = make(ExprKind::Compare, offset);
        adopt(*node, std::move(first));
        for (; op; op = comparison_op()) {
            node->ops.push_back(*op);
            PARSE_TRY(ExprPtr operand, additive());
            adopt(*node, std::move(operand));
        }
        return bounded(std::move(node));
    }

    template <size_t N, class Operand>
    Expected binary(const OpRow (&rows)[N], Operand operand) {
        PARSE_TRY(ExprPtr left, operand());
        for (bool found = true; found;) {
            found = false;
            for (const OpRow& row : rows) {
                if (!at_op(row.text)) continue;
                auto node = make(ExprKind::Binary, now().offset);
                advance();
                node->op = row.op;
                PARSE_TRY(ExprPtr right, operand());
                adopt(*node, std::move(left));
                adopt(*node, std::move(right));
                PARSE_TRY(left, bounded(std::move(node)));
                found = true;
            }
        }
        return left;
    }

    Expected additive() {
        return binary(kAdditive, [this] { return concat(); });
    }
    Expected concat() {
        return flat(
            ExprKind::Concat, [this] { return multiplicative(); }, [this] { return skip_op("~"); });
    }
    Expected multiplicative() {
        return binary(kMultiplicative, [this] { return power(); });
    }
    Expected power() {
        return binary(kPower, [this] { return unary(true); });
    }

    Expected unary(bool with_filters) {
        const Level level(expr_depth_);
        PARSE_TRY_VOID(check_level());
        ExprPtr node;
        if (at_op("-") || at_op("+")) {
            node = make(at_op("-") ? ExprKind::Negative : ExprKind::Positive, now().offset);
            advance();
            PARSE_TRY(ExprPtr operand, unary(false));
            adopt(*node, std::move(operand));
        } else {
            PARSE_TRY(node, primary());
        }
        PARSE_TRY(node, postfix(std::move(node)));
        if (!with_filters) return bounded(std::move(node));
        return filtered(std::move(node));
    }

    Expected primary() {
        const Token& token = now();
        auto node = make(ExprKind::Constant, token.offset);
        switch (token.kind) {
            case TokenKind::Name:
                return name();
            case TokenKind::Text: {
                std::string text;
                for (; now().kind == TokenKind::Text; advance()) text += now().text;
                node->value = Value::text(std::move(text));
                return node;
            }
            case TokenKind::Int: {
                const std::optional<Integer> value = parse_integer(token.text);
                if (!value) return fail("expected an integer of at most 127 bits");
                node->value = Value::integer(*value);
                advance();
                return node;
            }
            case TokenKind::Float: {
                const std::optional<double> value = parse_double(token.text);
                // Out of range: Python reads infinity, or nothing.
                const bool tiny = token.text.find('-') != std::string::npos;
                node->value =
                    Value::real(value.value_or(tiny ? 0.0 : std::numeric_limits<double>::infinity()));
                advance();
                return node;
            }
            default:
                break;
        }
        if (at_op("(")) {
            advance();
            PARSE_TRY(ExprPtr inner, tuple(true, {}, true));
            PARSE_TRY_VOID(expect_op(")"));
            return inner;
        }
        if (at_op("[")) return list();
        if (at_op("{")) return dict();
        return expected("an expression");
    }

    Expected name() {
        const Token& token = now();
        static constexpr std::array<std::string_view, 6> kConstants = {"true",  "True", "false",
                                                                       "False", "none", "None"};
        const auto it = std::find(kConstants.begin(), kConstants.end(), token.text);
        auto node = make(it == kConstants.end() ? ExprKind::Name : ExprKind::Constant, token.offset);
        if (it == kConstants.end()) {
            node->name = token.text;
            node->id = id_of(token.text);
            note_use(node->id);
        } else {
            const auto i = it - kConstants.begin();
            node->value = i >= 4 ? Value::none() : Value::boolean(i < 2);
        }
        advance();
        return node;
    }

    void note_use(uint32_t id) {
        if (id == Program::kLoop)
            for (bool* uses : loops_) *uses = true;
        if (macros_.empty()) return;
        if (id == Program::kVarargs) macros_.back()->varargs = true;
        if (id == Program::kKwargs) macros_.back()->kwargs = true;
        if (id == Program::kCaller) macros_.back()->caller = true;
    }

    Expected list() {
        auto node = make(ExprKind::List, now().offset);
        advance();
        while (!at_op("]")) {
            PARSE_TRY(ExprPtr item, expression());
            adopt(*node, std::move(item));
            if (!skip_op(",")) break;
        }
        PARSE_TRY_VOID(expect_op("]"));
        return bounded(std::move(node));
    }

    Expected dict() {
        auto node = make(ExprKind::Dict, now().offset);
        advance();
        while (!at_op("}")) {
            PARSE_TRY(ExprPtr key, expression());
            PARSE_TRY_VOID(expect_op(":"));
            PARSE_TRY(ExprPtr value, expression());
            adopt(*node, std::move(key));
            adopt(*node, std::move(value));
            if (!skip_op(",")) break;
        }
        PARSE_TRY_VOID(expect_op("}"));
        return bounded(std::move(node));
    }

    // Expressions with commas between them; a single one without a comma is itself. `ends` are names that end
    // it.
    Expected tuple(bool with_choice, Words ends, bool may_be_empty) {
        const uint32_t offset = now().offset;
        const auto at_end = [&] {
            const TokenKind kind = now().kind;
            if (kind == TokenKind::BlockEnd || kind == TokenKind::OutputEnd || at_op(")")) return true;
            return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return at_name(end); });
        };
        auto node = make(ExprKind::Tuple, offset);
        bool has_comma = false;
        while (!at_end()) {
            PARSE_TRY(ExprPtr item, expression(with_choice));
            adopt(*node, std::move(item));
            if (!skip_op(",")) break;
            has_comma = true;
        }
        if (!has_comma && !node->args.empty()) return std::move(node->args[0]);
        if (node->args.empty() && !may_be_empty) return expected("an expression");
        return bounded(std::move(node));
    }

    Expected postfix(ExprPtr node) {
        for (;;) {
            if (at_op(".")) {
                PARSE_TRY(node, attribute(std::move(node)));
            } else if (at_op("[")) {
                PARSE_TRY(node, subscript(std::move(node)));
            } else if (at_op("(")) {
                PARSE_TRY(node, call(std::move(node)));
            } else {
                return node;
            }
        }
    }

    Expected filtered(ExprPtr node) {
        for (;;) {
            if (at_op("|")) {
                advance();
                PARSE_TRY(node, filter(std::move(node)));
            } else if (at_name("is")) {
                PARSE_TRY(node, test(std::move(node)));
            } else if (at_op("(")) {
                PARSE_TRY(node, call(std::move(node)));
            } else {
                return node;
            }
        }
    }

    Expected attribute(ExprPtr object) {
        auto node = make(ExprKind::Attribute, now().offset);
        advance();
        adopt(*node, std::move(object));
        if (now().kind == TokenKind::Int) {
            node->kind = ExprKind::Item;
            PARSE_TRY(ExprPtr index, primary());
            adopt(*node, std::move(index));
        } else {
            PARSE_TRY(node->name, expect_name());
        }
        return bounded(std::move(node));
    }

    Expected subscript(ExprPtr object) {
        auto node = make(ExprKind::Item, now().offset);
        advance();
        adopt(*node, std::move(object));
        ExprPtr index;
        if (!at_op(":")) {
            PARSE_TRY(index, expression());
        }
        if (at_op(":")) {
            node->kind = ExprKind::Slice;
            adopt(*node, std::move(index));
            for (int part = 0; part < 2; part++) {
                ExprPtr bound;
                if (skip_op(":") && !at_op(":") && !at_op("]")) {
                    PARSE_TRY(bound, expression());
                }
                adopt(*node, std::move(bound));
            }
        } else if (at_op(",")) {
            auto key = make(ExprKind::Tuple, now().offset);
            adopt(*key, std::move(index));
            while (skip_op(",") && !at_op("]")) {
                PARSE_TRY(ExprPtr part, expression());
                adopt(*key, std::move(part));
            }
            adopt(*node, std::move(key));
        } else {
            adopt(*node, std::move(index));
        }
        PARSE_TRY_VOID(expect_op("]"));
        return bounded(std::move(node));
    }

    Expected call(ExprPtr callee) {
        auto node = make(ExprKind::Call, now().offset);
        adopt(*node, std::move(callee));
        PARSE_TRY_VOID(arguments(*node));
        return bounded(std::move(node));
    }

    Parsed<void> arguments(Expr& node) {
        const Level level(expr_depth_);
        PARSE_TRY_VOID(check_level());
        advance();
        const auto adopt_star = [&](ExprPtr& place) -> Parsed<void> {
            if (place) return fail("expected at most one of these among the arguments");
            advance();
            PARSE_TRY(place, expression());
            node.depth = std::max(node.depth, place->depth + 1);
            return {};
        };
        while (!at_op(")")) {
            if (at_op("*")) {
                PARSE_TRY_VOID(adopt_star(node.star_args));
            } else if (at_op("**")) {
                PARSE_TRY_VOID(adopt_star(node.star_named));
            } else if (now().kind == TokenKind::Name && next().kind == TokenKind::Op && next().text == "=") {
                std::string name = now().text;
                advance();
                advance();
                PARSE_TRY(ExprPtr value, expression());
                node.depth = std::max(node.depth, value->depth + 1);
                node.named.emplace_back(std::move(name), std::move(value));
            } else {
                if (!node.named.empty() || node.star_args || node.star_named)
                    return fail("expected the arguments without a name before those with one");
                PARSE_TRY(ExprPtr value, expression());
                adopt(node, std::move(value));
            }
            if (!skip_op(",")) break;
        }
        return expect_op(")");
    }

    Parsed<std::string> dotted_name() {
        PARSE_TRY(std::string name, expect_name());
        while (skip_op(".")) {
            PARSE_TRY(const std::string part, expect_name());
            name += "." + part;
        }
        return name;
    }

    // One filter's name and arguments, its bar read already.
    Expected filter(ExprPtr object) {
        auto node = make(ExprKind::Filter, now().offset);
        adopt(*node, std::move(object));
        PARSE_TRY(node->name, dotted_name());
        if (at_op("(")) {
            PARSE_TRY_VOID(arguments(*node));
        }
        return bounded(std::move(node));
    }

    // Filters over the text of a block.
    Expected filter_chain() {
        PARSE_TRY(ExprPtr node, filter(make(ExprKind::Slot, now().offset)));
        while (skip_op("|")) {
            PARSE_TRY(node, filter(std::move(node)));
        }
        return node;
    }

    Expected test(ExprPtr object) {
        auto node = make(ExprKind::Test, now().offset);
        advance();
        const bool negated = skip_name("not");
        adopt(*node, std::move(object));
        PARSE_TRY(node->name, dotted_name());
        if (at_op("(")) {
            PARSE_TRY_VOID(arguments(*node));
        } else if (starts_test_argument()) {
            const Level level(expr_depth_);
            PARSE_TRY_VOID(check_level());
            PARSE_TRY(ExprPtr argument, primary());
            PARSE_TRY(argument, postfix(std::move(argument)));
            adopt(*node, std::move(argument));
        }
        if (!negated) return bounded(std::move(node));
        auto inverse = make(ExprKind::Not, node->offset);
        adopt(*inverse, std::move(node));
        return bounded(std::move(inverse));
    }

    bool starts_test_argument() const {
        switch (now().kind) {
            case TokenKind::Text:
            case TokenKind::Int:
            case TokenKind::Float:
                return true;
            case TokenKind::Op:
                return at_op("[") || at_op("{");
            case TokenKind::Name:
                for (const char* word : {"else", "or", "and", "if", "is", "in", "not"})
                    if (at_name(word)) return false;
                return true;
            default:
                return false;
        }
    }

    // Statements.

    // Everything up to a block tag that begins with one of `ends`; that word is the current token then. With
    // no ends: up to the end of the template.
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

    // Names with commas between them, brackets around some.
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
        // A macro's body is no part of the loop around it.
        if (loops_.size() == loops_before_macro())
            return fail(strf("'%s' outside of a loop", now().text.c_str()));
        advance();
        PARSE_TRY_VOID(expect_block_end());
        return stmt;
    }
    StmtPtr break_statement() { return jump(StmtKind::Break); }
    StmtPtr continue_statement() { return jump(StmtKind::Continue); }

    // Loops that are open around the innermost macro.
    size_t loops_before_macro() const {
        size_t n = 0;
        for (size_t i = open_.size(); i-- > 0;)
            if (open_[i].first == "macro" || open_[i].first == "call") {
                for (size_t j = 0; j < i; j++) n += open_[j].first == "for";
                break;
            }
        return std::min(n, loops_.size());
    }

    std::vector<Token> tokens_;
    size_t at_ = 0;
    uint32_t expr_depth_ = 0, stmt_depth_ = 0;
    Program program_;
    std::unordered_map<std::string, uint32_t> ids_;
    std::vector<std::pair<std::string, uint32_t>> open_;  // statements being parsed: name, offset
    std::vector<bool*> loops_;                            // of the loops being parsed: whether `loop` is used
    std::vector<MacroUses*> macros_;
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

#undef PARSE_TRY
#undef PARSE_TRY_VOID

}  // namespace

tl::expected<Program, SyntaxError> parse(std::string_view source) {
    auto tokens = lex(source);
    if (!tokens) return tl::unexpected<SyntaxError>(std::move(tokens.error()));
    return Parser(std::move(*tokens)).run();
}

}  // namespace tessera::jinja
