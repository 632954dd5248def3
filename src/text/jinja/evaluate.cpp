// Evaluates expressions by walking the tree. Each level counts as a step and towards the depth limit; errors
// are reported at the innermost failing expression.
#include <algorithm>

#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

Result<Value> Runtime::evaluate(const Expr& expr) {
    if (expr.kind == ExprKind::Constant) return expr.value;
    if (depth_ >= limits_.max_depth) {
        if (!std::exchange(has_error_, true)) error_offset_ = expr.offset;
        return fail(ErrorCode::OutOfMemory, "the template nests deeper than %zu levels", limits_.max_depth);
    }
    depth_++;
    Result<Value> value = Value();
    if (const Result<void> charged = charge(1); charged) {
        value = evaluate_kind(expr);
    } else {
        value = tl::unexpected<Error>(charged.error());
    }
    depth_--;
    if (!value && !std::exchange(has_error_, true)) error_offset_ = expr.offset;
    return value;
}

Result<Value> Runtime::evaluate_kind(const Expr& expr) {
    switch (expr.kind) {
        case ExprKind::Constant:
            return expr.value;
        case ExprKind::Name:
            return lookup(expr);
        case ExprKind::Slot:
            return std::exchange(slot_, {});
        case ExprKind::List:
        case ExprKind::Tuple:
            return evaluate_items(expr);
        case ExprKind::Dict:
            return evaluate_dict(expr);
        case ExprKind::Attribute: {
            TSR_TRY(const Value object, evaluate(*expr.args[0]));
            return attribute(object, expr.name);
        }
        case ExprKind::Item: {
            TSR_TRY(const Value object, evaluate(*expr.args[0]));
            TSR_TRY(const Value key, evaluate(*expr.args[1]));
            return item(object, key);
        }
        case ExprKind::Slice:
            return evaluate_slice(expr);
        case ExprKind::Call:
            return evaluate_call(expr, nullptr);
        case ExprKind::Filter:
            return evaluate_filter(expr);
        case ExprKind::Test:
            return evaluate_test(expr);
        case ExprKind::Negative:
        case ExprKind::Positive: {
            TSR_TRY(const Value value, evaluate(*expr.args[0]));
            return negative(value, expr.kind == ExprKind::Negative);
        }
        case ExprKind::Not: {
            TSR_TRY(const Value value, evaluate(*expr.args[0]));
            return Value::boolean(!value.truthy());
        }
        case ExprKind::And:
        case ExprKind::Or:
            return evaluate_logic(expr);
        case ExprKind::Concat:
            return evaluate_concat(expr);
        case ExprKind::Binary:
            return evaluate_binary(expr);
        case ExprKind::Compare:
            return evaluate_compare(expr);
        case ExprKind::Choice:
            return evaluate_choice(expr);
    }
    return Value();
}

Result<Value> Runtime::lookup(const Expr& expr) {
    if (const Value* value = frame_->find(expr.id)) return *value;
    return undefined("'" + expr.name + "' is undefined");
}

Result<Value> Runtime::evaluate_items(const Expr& expr) {
    Value::Items items;
    items.reserve(expr.args.size());
    for (const ExprPtr& arg : expr.args) {
        TSR_TRY(Value value, evaluate(*arg));
        items.push_back(std::move(value));
    }
    return expr.kind == ExprKind::List ? list(std::move(items)) : tuple(std::move(items));
}

Result<Value> Runtime::evaluate_dict(const Expr& expr) {
    Value::Pairs pairs;
    for (size_t i = 0; i + 1 < expr.args.size(); i += 2) {
        TSR_TRY(Value key, evaluate(*expr.args[i]));
        TSR_TRY(Value value, evaluate(*expr.args[i + 1]));
        if (!key.is_hashable())
            return fail(ErrorCode::InvalidArgument, "unhashable type: '%s'", key.type_name());
        pairs.emplace_back(std::move(key), std::move(value));
    }
    return Value::dict(std::move(pairs), &heap_);
}

Result<Value> Runtime::evaluate_slice(const Expr& expr) {
    TSR_TRY(const Value object, evaluate(*expr.args[0]));
    Value bounds[3];
    for (size_t i = 0; i < 3; i++) {
        if (!expr.args[i + 1]) continue;
        TSR_TRY(bounds[i], evaluate(*expr.args[i + 1]));
    }
    const auto given = [&](size_t i) { return expr.args[i + 1] ? &bounds[i] : nullptr; };
    return slice(object, given(0), given(1), given(2));
}

Result<Args> Runtime::arguments(const Expr& expr) {
    Args args;
    for (size_t i = 1; i < expr.args.size(); i++) {
        TSR_TRY(Value value, evaluate(*expr.args[i]));
        args.positional.push_back(std::move(value));
    }
    for (const auto& [name, arg] : expr.named) {
        TSR_TRY(Value value, evaluate(*arg));
        args.named.emplace_back(name, std::move(value));
    }
    if (expr.star_args) {
        TSR_TRY(const Value value, evaluate(*expr.star_args));
        TSR_TRY(const Value::Items items, walk(value));
        args.positional.insert(args.positional.end(), items.begin(), items.end());
    }
    if (expr.star_named) {
        TSR_TRY(const Value value, evaluate(*expr.star_named));
        if (!value.is_dict())
            return fail(ErrorCode::InvalidArgument, "argument after ** must be a mapping, not %s",
                        value.type_name());
        for (const auto& [key, member] : value.as_dict().pairs()) {
            if (!key.is_text()) return fail(ErrorCode::InvalidArgument, "keywords must be strings");
            args.named.emplace_back(key.as_text(), member);
        }
    }
    return args;
}

Result<Value> Runtime::evaluate_call(const Expr& expr, const Value* caller) {
    TSR_TRY(const Value callee, evaluate(*expr.args[0]));
    TSR_TRY(Args args, arguments(expr));
    if (caller) args.named.emplace_back("caller", *caller);
    return call(callee, std::move(args));
}

Result<Value> Runtime::call(const Value& callee, Args args) {
    if (callee.is_undefined()) return fail(ErrorCode::InvalidArgument, "%s", callee.as_text().c_str());
    if (!callee.is(Kind::Object))
        return fail(ErrorCode::InvalidArgument, "'%s' object is not callable", callee.type_name());
    const std::shared_ptr<Object> object = callee.object_ptr();
    return object->call(*this, std::move(args));
}

Result<Value> Runtime::evaluate_filter(const Expr& expr) {
    TSR_TRY(const Value object, evaluate(*expr.args[0]));
    TSR_TRY(const Args args, arguments(expr));
    return filter(expr.name, object, args);
}

Result<Value> Runtime::filter(const std::string& name, const Value& object, const Args& args) {
    const Builtin* row = find_filter(name);
    if (!row) return fail(ErrorCode::InvalidArgument, "No filter named '%s'.", name.c_str());
    TSR_TRY(const Bound bound, bind(*row, args));
    return row->function(*this, object, bound);
}

Result<Value> Runtime::evaluate_test(const Expr& expr) {
    TSR_TRY(const Value object, evaluate(*expr.args[0]));
    TSR_TRY(const Args args, arguments(expr));
    TSR_TRY(const bool passes, test(expr.name, object, args));
    return Value::boolean(passes);
}

Result<bool> Runtime::test(const std::string& name, const Value& object, const Args& args) {
    const Builtin* row = find_test(name);
    if (!row) return fail(ErrorCode::InvalidArgument, "No test named '%s'.", name.c_str());
    TSR_TRY(const Bound bound, bind(*row, args));
    TSR_TRY(const Value value, row->function(*this, object, bound));
    return value.truthy();
}

Result<Value> Runtime::evaluate_logic(const Expr& expr) {
    for (size_t i = 0;; i++) {
        TSR_TRY(Value value, evaluate(*expr.args[i]));
        if (i + 1 == expr.args.size() || value.truthy() == (expr.kind == ExprKind::Or)) return value;
    }
}

Result<Value> Runtime::evaluate_concat(const Expr& expr) {
    std::string out;
    for (const ExprPtr& arg : expr.args) {
        TSR_TRY(const Value value, evaluate(*arg));
        if (value.is_text()) {
            TSR_TRY_VOID(check_room(out.size() + value.as_text().size()));
            out += value.as_text();
        } else {
            TSR_TRY_VOID(write(out, value, false));
        }
    }
    return text(std::move(out));
}

Result<Value> Runtime::evaluate_binary(const Expr& expr) {
    TSR_TRY(const Value a, evaluate(*expr.args[0]));
    TSR_TRY(const Value b, evaluate(*expr.args[1]));
    return binary(expr.op, a, b);
}

Result<Value> Runtime::evaluate_compare(const Expr& expr) {
    TSR_TRY(Value left, evaluate(*expr.args[0]));
    for (size_t i = 0; i < expr.ops.size(); i++) {
        TSR_TRY(Value right, evaluate(*expr.args[i + 1]));
        TSR_TRY(const bool holds, compare(expr.ops[i], left, right));
        if (!holds) return Value::boolean(false);
        left = std::move(right);
    }
    return Value::boolean(true);
}

Result<Value> Runtime::evaluate_choice(const Expr& expr) {
    TSR_TRY(const Value condition, evaluate(*expr.args[1]));
    if (condition.truthy()) return evaluate(*expr.args[0]);
    if (expr.args[2]) return evaluate(*expr.args[2]);
    return undefined("the inline if-expression evaluated to false and no else section was defined");
}

}  // namespace tessera::jinja
