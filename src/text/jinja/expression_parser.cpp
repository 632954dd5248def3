// Parses expressions: operators from the lowest to the highest precedence, then primary expressions and their
// suffixes. Next: parser.cpp, the statements.
#include "src/text/jinja/expression_parser.h"

#include <array>
#include <limits>

namespace tessera::jinja {

namespace {

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

constexpr OpRow kAdditive[] = {{"+", Op::Add}, {"-", Op::Sub}};
constexpr OpRow kMultiplicative[] = {{"*", Op::Mul}, {"/", Op::Div}, {"//", Op::FloorDiv}, {"%", Op::Mod}};
constexpr OpRow kPower[] = {{"**", Op::Pow}};
constexpr OpRow kComparisons[] = {{"==", Op::Eq}, {"!=", Op::Ne}, {"<", Op::Lt},
                                  {"<=", Op::Le}, {">", Op::Gt},  {">=", Op::Ge}};

}  // namespace

ExpressionParser::ExpressionParser(std::vector<Token> tokens) : TokenCursor(std::move(tokens)) {
    for (const char* name : {"loop", "varargs", "kwargs", "caller"}) id_of(name);
}

uint32_t ExpressionParser::id_of(const std::string& name) {
    const auto [it, added] = ids_.try_emplace(name, static_cast<uint32_t>(program_.names.size()));
    if (added) program_.names.push_back(name);
    return it->second;
}

ExprPtr ExpressionParser::make(ExprKind kind, uint32_t offset) {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->offset = offset;
    return expr;
}

void ExpressionParser::adopt(Expr& parent, ExprPtr child) {
    if (child) parent.depth = std::max(parent.depth, child->depth + 1);
    parent.args.push_back(std::move(child));
}

ParsedExpr ExpressionParser::bounded(ExprPtr expr) {
    if (expr->depth > kMaxExprDepth)
        return fail_at(expr->offset, strf("expected an expression of at most %u levels, found a deeper one",
                                          kMaxExprDepth));
    return expr;
}

Parsed<void> ExpressionParser::check_level() const {
    if (expr_depth_ <= kMaxExprDepth) return {};
    return fail(strf("expected at most %u levels of brackets and operators", kMaxExprDepth));
}

ParsedExpr ExpressionParser::expression(bool with_choice) {
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

template <class Operand, class Skip>
ParsedExpr ExpressionParser::flat(ExprKind kind, Operand operand, Skip skip) {
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

ParsedExpr ExpressionParser::disjunction() {
    return flat(
        ExprKind::Or, [this] { return conjunction(); }, [this] { return skip_name("or"); });
}

ParsedExpr ExpressionParser::conjunction() {
    return flat(
        ExprKind::And, [this] { return negation(); }, [this] { return skip_name("and"); });
}

ParsedExpr ExpressionParser::negation() {
    if (!at_name("not")) return comparison();
    const Level level(expr_depth_);
    PARSE_TRY_VOID(check_level());
    auto node = make(ExprKind::Not, now().offset);
    advance();
    PARSE_TRY(ExprPtr operand, negation());
    adopt(*node, std::move(operand));
    return bounded(std::move(node));
}

std::optional<Op> ExpressionParser::comparison_op() {
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

ParsedExpr ExpressionParser::comparison() {
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
ParsedExpr ExpressionParser::binary(const OpRow (&rows)[N], Operand operand) {
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

ParsedExpr ExpressionParser::additive() {
    return binary(kAdditive, [this] { return concat(); });
}

ParsedExpr ExpressionParser::concat() {
    return flat(
        ExprKind::Concat, [this] { return multiplicative(); }, [this] { return skip_op("~"); });
}

ParsedExpr ExpressionParser::multiplicative() {
    return binary(kMultiplicative, [this] { return power(); });
}

ParsedExpr ExpressionParser::power() {
    return binary(kPower, [this] { return unary(true); });
}

ParsedExpr ExpressionParser::unary(bool with_filters) {
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

ParsedExpr ExpressionParser::primary() {
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
            // Out of range: Python reads infinity or 0.
            const bool tiny = token.text.find('-') != std::string::npos;
            node->value = Value::real(value.value_or(tiny ? 0.0 : std::numeric_limits<double>::infinity()));
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

ParsedExpr ExpressionParser::name() {
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

void ExpressionParser::note_use(uint32_t id) {
    if (id == Program::kLoop)
        for (bool* uses : loops_) *uses = true;
    if (macros_.empty()) return;
    if (id == Program::kVarargs) macros_.back()->varargs = true;
    if (id == Program::kKwargs) macros_.back()->kwargs = true;
    if (id == Program::kCaller) macros_.back()->caller = true;
}

ParsedExpr ExpressionParser::list() {
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

ParsedExpr ExpressionParser::dict() {
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

ParsedExpr ExpressionParser::tuple(bool with_choice, Words ends, bool may_be_empty) {
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

ParsedExpr ExpressionParser::postfix(ExprPtr node) {
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

ParsedExpr ExpressionParser::filtered(ExprPtr node) {
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

ParsedExpr ExpressionParser::attribute(ExprPtr object) {
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

ParsedExpr ExpressionParser::subscript(ExprPtr object) {
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

ParsedExpr ExpressionParser::call(ExprPtr callee) {
    auto node = make(ExprKind::Call, now().offset);
    adopt(*node, std::move(callee));
    PARSE_TRY_VOID(arguments(*node));
    return bounded(std::move(node));
}

Parsed<void> ExpressionParser::arguments(Expr& node) {
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

Parsed<std::string> ExpressionParser::dotted_name() {
    PARSE_TRY(std::string name, expect_name());
    while (skip_op(".")) {
        PARSE_TRY(const std::string part, expect_name());
        name += "." + part;
    }
    return name;
}

ParsedExpr ExpressionParser::filter(ExprPtr object) {
    auto node = make(ExprKind::Filter, now().offset);
    adopt(*node, std::move(object));
    PARSE_TRY(node->name, dotted_name());
    if (at_op("(")) {
        PARSE_TRY_VOID(arguments(*node));
    }
    return bounded(std::move(node));
}

ParsedExpr ExpressionParser::filter_chain() {
    PARSE_TRY(ExprPtr node, filter(make(ExprKind::Slot, now().offset)));
    while (skip_op("|")) {
        PARSE_TRY(node, filter(std::move(node)));
    }
    return node;
}

ParsedExpr ExpressionParser::test(ExprPtr object) {
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

bool ExpressionParser::starts_test_argument() const {
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

}  // namespace tessera::jinja
