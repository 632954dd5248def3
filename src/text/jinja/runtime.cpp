// Statements: scopes, loops, macros, output, and the accounting of a render. Expressions are in evaluate.cpp,
// operators in operators.cpp, attributes and items in access.cpp, str() and repr() in print.cpp.
//
// Scopes are shared with the macros defined in them. One that is still referred to when it ends is kept until
// the end of the render and emptied there, as are loops and namespaces: circles cannot leak, and chains of
// them are freed link by link instead of recursively.
#include "src/text/jinja/runtime.h"

#include <algorithm>

#include "src/text/jinja/objects.h"

namespace tessera::jinja {

const Value* Frame::find(uint32_t id) const {
    for (const Frame* frame = this; frame; frame = frame->parent_.get())
        for (const auto& [name, value] : frame->variables_)
            if (name == id) return &value;
    return nullptr;
}

void Frame::set(uint32_t id, Value value) {
    for (auto& [name, old] : variables_) {
        if (name != id) continue;
        old = std::move(value);
        return;
    }
    variables_.emplace_back(id, std::move(value));
}

// A new innermost scope during its lifetime.
struct Runtime::Scope {
    Runtime& runtime;
    std::shared_ptr<Frame> saved;

    Scope(Runtime& runtime_, std::shared_ptr<Frame> parent) : runtime(runtime_), saved(runtime_.frame_) {
        runtime.frame_ = std::make_shared<Frame>(std::move(parent));
    }
    ~Scope() {
        std::shared_ptr<Frame> ended = std::exchange(runtime.frame_, std::move(saved));
        if (ended.use_count() > 1) runtime.kept_frames_.push_back(std::move(ended));
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
};

Runtime::Runtime(const Program& program, const Limits& limits, const DateTime& now)
    : program_(program), limits_(limits), now_(now) {}

Runtime::~Runtime() {
    slot_ = {};
    frame_.reset();
    for (const auto& frame : kept_frames_) frame->clear();
    for (const auto& object : kept_objects_) object->clear();
}

Result<std::string> Runtime::render(const Value& context) {
    frame_ = std::make_shared<Frame>(nullptr);
    for (size_t id = 0; id < program_.names.size(); id++) {
        const std::string& name = program_.names[id];
        if (const Value* value = context.find(name)) {
            frame_->set(static_cast<uint32_t>(id), *value);
        } else if (const Builtin* global = find_global(name)) {
            frame_->set(static_cast<uint32_t>(id),
                        Value::object(make_function(*global, Value::none(), &heap_)));
        }
    }
    // Assignments of the template shadow the context instead of changing it.
    const std::shared_ptr<Frame> globals = frame_;
    Result<Flow> result = Flow::Normal;
    {
        const Scope scope(*this, globals);
        result = run(program_.body);
    }
    kept_frames_.push_back(globals);
    if (!result) return tl::unexpected<Error>(std::move(result.error()));
    return std::move(output_);
}

void Runtime::keep(std::shared_ptr<Object> object) { kept_objects_.push_back(std::move(object)); }

tl::unexpected<Error> Runtime::raise(std::string message) {
    raised_ = true;
    return tl::unexpected<Error>({ErrorCode::InvalidArgument, std::move(message)});
}

Result<void> Runtime::charge(size_t n_steps) {
    n_steps_ += n_steps + (heap_.made_bytes - work_seen_) / kBytesPerStep;
    work_seen_ += (heap_.made_bytes - work_seen_) / kBytesPerStep * kBytesPerStep;
    if (n_steps_ > limits_.max_steps)
        return fail(ErrorCode::OutOfMemory, "the template takes more than %zu steps", limits_.max_steps);
    if (heap_.live_bytes > limits_.max_live_bytes)
        return fail(ErrorCode::OutOfMemory, "the template holds more than %zu bytes of values",
                    limits_.max_live_bytes);
    if (heap_.deepest > kMaxValueDepth)
        return fail(ErrorCode::OutOfMemory, "the template nests values deeper than %zu levels",
                    kMaxValueDepth);
    return {};
}

Result<void> Runtime::make_room(size_t n_bytes) {
    TSR_TRY_VOID(charge_bytes(n_bytes));
    return check_room(n_bytes);
}

Result<void> Runtime::check_room(size_t n_bytes) const {
    if (n_bytes <= limits_.max_live_bytes && heap_.live_bytes + n_bytes <= limits_.max_live_bytes) return {};
    return fail(ErrorCode::OutOfMemory, "the template holds more than %zu bytes of values",
                limits_.max_live_bytes);
}

Result<void> Runtime::print(std::string_view text) {
    if (n_captured_ + output_.size() + text.size() > limits_.max_output_bytes)
        return fail(ErrorCode::OutOfMemory, "the template prints more than %zu bytes",
                    limits_.max_output_bytes);
    TSR_TRY_VOID(charge_bytes(text.size()));
    output_ += text;
    return {};
}

Result<std::string> Runtime::capture(const Body& body) {
    std::string outside = std::exchange(output_, {});
    const size_t n_outside = outside.size();
    n_captured_ += n_outside;
    const Result<Flow> flow = run(body);
    n_captured_ -= n_outside;
    std::string text = std::exchange(output_, std::move(outside));
    if (!flow) return tl::unexpected<Error>(flow.error());
    return text;
}

Result<Runtime::Flow> Runtime::run(const Body& body) {
    for (const auto& stmt : body) {
        TSR_TRY(const Flow flow, run_statement(*stmt));
        if (flow != Flow::Normal) return flow;
    }
    return Flow::Normal;
}

Result<Runtime::Flow> Runtime::run_statement(const Stmt& stmt) {
    if (depth_ >= limits_.max_depth)
        return fail(ErrorCode::OutOfMemory, "the template nests deeper than %zu levels", limits_.max_depth);
    depth_++;
    Result<Flow> flow = Flow::Normal;
    if (const Result<void> charged = charge(1); charged) {
        flow = run_kind(stmt);
    } else {
        flow = tl::unexpected<Error>(charged.error());
    }
    depth_--;
    if (!flow && !has_error_) {
        has_error_ = true;
        error_offset_ = stmt.offset;
    }
    return flow;
}

Result<Runtime::Flow> Runtime::run_kind(const Stmt& stmt) {
    switch (stmt.kind) {
        case StmtKind::Data: {
            TSR_TRY_VOID(print(stmt.text));
            return Flow::Normal;
        }
        case StmtKind::Output: {
            TSR_TRY(const Value value, evaluate(*stmt.exprs[0]));
            if (value.is_text()) {
                TSR_TRY_VOID(print(value.as_text()));
            } else {
                TSR_TRY(const std::string text, str(value));
                TSR_TRY_VOID(print(text));
            }
            return Flow::Normal;
        }
        case StmtKind::If:
            return run_if(stmt);
        case StmtKind::For:
            return run_for(stmt);
        case StmtKind::Set:
            return run_set(stmt);
        case StmtKind::SetBlock:
            return run_set_block(stmt);
        case StmtKind::Macro:
            return run_macro(stmt);
        case StmtKind::CallBlock:
            return run_call_block(stmt);
        case StmtKind::Filter:
            return run_filter(stmt);
        case StmtKind::With:
            return run_with(stmt);
        case StmtKind::Scope:
            return run_scope(stmt);
        case StmtKind::Break:
            return Flow::Break;
        case StmtKind::Continue:
            return Flow::Continue;
    }
    return Flow::Normal;
}

Result<Runtime::Flow> Runtime::run_if(const Stmt& stmt) {
    for (const Branch& branch : stmt.branches) {
        if (branch.condition) {
            TSR_TRY(const Value condition, evaluate(*branch.condition));
            if (!condition.truthy()) continue;
        }
        return run(branch.body);
    }
    return Flow::Normal;
}

Result<Runtime::Flow> Runtime::run_for(const Stmt& stmt) {
    TSR_TRY(const Value iterable, evaluate(*stmt.exprs[0]));
    return run_loop(stmt, frame_, iterable, 0);
}

Result<Value::Items> Runtime::chosen_items(const Stmt& stmt, const std::shared_ptr<Frame>& outer,
                                           Value::Items items) {
    Value::Items chosen;
    for (Value& item : items) {
        const Scope scope(*this, outer);
        TSR_TRY_VOID(assign(stmt.target, item));
        TSR_TRY(const Value condition, evaluate(*stmt.filter));
        if (condition.truthy()) chosen.push_back(std::move(item));
    }
    return chosen;
}

Result<Runtime::Flow> Runtime::run_loop(const Stmt& stmt, const std::shared_ptr<Frame>& outer,
                                        const Value& iterable, size_t depth) {
    TSR_TRY(Value::Items items, walk(iterable));
    if (stmt.filter) {
        TSR_TRY(items, chosen_items(stmt, outer, std::move(items)));
    }
    if (items.empty()) {
        const Scope scope(*this, outer);
        return run(stmt.otherwise);
    }
    std::shared_ptr<LoopObject> loop;
    if (stmt.uses_loop || stmt.recursive)
        loop = std::make_shared<LoopObject>(stmt, outer, items, depth, &heap_);
    Result<Flow> flow = Flow::Normal;
    for (size_t i = 0; i < items.size() && flow && *flow != Flow::Break; i++) {
        const Scope scope(*this, outer);
        if (loop) {
            loop->set_at(i);
            frame_->set(Program::kLoop, Value::object(loop));
        }
        if (const Result<void> assigned = assign(stmt.target, items[i]); !assigned) {
            flow = tl::unexpected<Error>(assigned.error());
            break;
        }
        flow = run(stmt.body);
    }
    if (loop && loop.use_count() > 1) keep(std::move(loop));
    if (!flow) return flow;
    return Flow::Normal;
}

Result<Value> Runtime::recurse(const LoopObject& loop, const Value& items) {
    std::string outside = std::exchange(output_, {});
    const size_t n_outside = outside.size();
    n_captured_ += n_outside;
    // Holds a reference, since the body may end the loop.
    const std::shared_ptr<Frame> outer = loop.outer();
    const Result<Flow> flow = run_loop(loop.stmt(), outer, items, loop.level() + 1);
    n_captured_ -= n_outside;
    std::string result = std::exchange(output_, std::move(outside));
    if (!flow) return tl::unexpected<Error>(flow.error());
    return text(std::move(result));
}

Result<void> Runtime::assign(const Target& target, const Value& value) {
    if (!target.parts.empty()) {
        TSR_TRY(const Value::Items items, walk(value));
        if (items.size() != target.parts.size())
            return fail(ErrorCode::InvalidArgument, "expected %zu values to unpack, found %zu",
                        target.parts.size(), items.size());
        for (size_t i = 0; i < items.size(); i++) TSR_TRY_VOID(assign(target.parts[i], items[i]));
        return {};
    }
    if (target.member.empty()) {
        frame_->set(target.id, value);
        return {};
    }
    const Value* object = frame_->find(target.id);
    if (object && object->is(Kind::Object) && object->as_object().assign(target.member, value)) return {};
    return fail(ErrorCode::InvalidArgument, "cannot assign attribute on non-namespace object '%s'",
                target.name.c_str());
}

Result<Runtime::Flow> Runtime::run_set(const Stmt& stmt) {
    TSR_TRY(const Value value, evaluate(*stmt.exprs[0]));
    TSR_TRY_VOID(assign(stmt.target, value));
    return Flow::Normal;
}

Result<Runtime::Flow> Runtime::run_set_block(const Stmt& stmt) {
    Result<std::string> caught = std::string();
    {
        const Scope scope(*this, frame_);
        caught = capture(stmt.body);
    }
    if (!caught) return tl::unexpected<Error>(std::move(caught.error()));
    Value value = text(std::move(*caught));
    if (stmt.filter) {
        slot_ = value;
        TSR_TRY(value, evaluate(*stmt.filter));
    }
    TSR_TRY_VOID(assign(stmt.target, value));
    return Flow::Normal;
}

Result<Runtime::Flow> Runtime::run_macro(const Stmt& stmt) {
    frame_->set(stmt.id, Value::object(std::make_shared<MacroObject>(stmt, frame_, &heap_)));
    return Flow::Normal;
}

Result<Runtime::Flow> Runtime::run_call_block(const Stmt& stmt) {
    const Value caller = Value::object(std::make_shared<MacroObject>(stmt, frame_, &heap_));
    TSR_TRY(const Value value, evaluate_call(*stmt.exprs[0], &caller));
    TSR_TRY(const std::string text, str(value));
    TSR_TRY_VOID(print(text));
    return Flow::Normal;
}

Result<Runtime::Flow> Runtime::run_filter(const Stmt& stmt) {
    Result<std::string> caught = std::string();
    {
        const Scope scope(*this, frame_);
        caught = capture(stmt.body);
    }
    if (!caught) return tl::unexpected<Error>(std::move(caught.error()));
    slot_ = text(std::move(*caught));
    TSR_TRY(const Value value, evaluate(*stmt.filter));
    TSR_TRY(const std::string result, str(value));
    TSR_TRY_VOID(print(result));
    return Flow::Normal;
}

Result<Runtime::Flow> Runtime::run_with(const Stmt& stmt) {
    Value::Items values;
    for (const Param& param : stmt.params) {
        TSR_TRY(Value value, evaluate(*param.preset));
        values.push_back(std::move(value));
    }
    const Scope scope(*this, frame_);
    for (size_t i = 0; i < values.size(); i++) frame_->set(stmt.params[i].id, std::move(values[i]));
    return run(stmt.body);
}

Result<Runtime::Flow> Runtime::run_scope(const Stmt& stmt) {
    const Scope scope(*this, frame_);
    return run(stmt.body);
}

Result<Value> Runtime::call_macro(const MacroObject& macro, Args args) {
    // The body may release the object.
    const Stmt& stmt = macro.stmt();
    const Scope scope(*this, macro.frame());
    TSR_TRY_VOID(fill_parameters(macro, std::move(args)));
    TSR_TRY(std::string result, capture(stmt.body));
    return text(std::move(result));
}

Result<void> Runtime::fill_parameters(const MacroObject& macro, Args args) {
    const Stmt& stmt = macro.stmt();
    const char* name = stmt.text.c_str();
    const auto take_named = [&](const std::string& wanted) -> std::optional<Value> {
        const auto it = std::find_if(args.named.begin(), args.named.end(),
                                     [&](const auto& entry) { return entry.first == wanted; });
        if (it == args.named.end()) return std::nullopt;
        std::optional<Value> value = std::move(it->second);
        args.named.erase(it);
        return value;
    };
    for (size_t i = 0; i < stmt.params.size(); i++) {
        const Param& param = stmt.params[i];
        std::optional<Value> named = take_named(param.name);
        if (i < args.positional.size()) {
            if (named)
                return fail(ErrorCode::InvalidArgument, "macro '%s' got several values for argument '%s'",
                            name, param.name.c_str());
            frame_->set(param.id, args.positional[i]);
        } else if (named) {
            frame_->set(param.id, std::move(*named));
        } else if (param.preset) {
            TSR_TRY(Value preset, evaluate(*param.preset));
            frame_->set(param.id, std::move(preset));
        } else {
            frame_->set(param.id, undefined(strf("parameter '%s' was not provided", param.name.c_str())));
        }
    }
    if (std::optional<Value> caller = take_named("caller")) {
        if (!stmt.uses.caller)
            return fail(ErrorCode::InvalidArgument,
                        "macro '%s' was invoked with two values for the special caller argument", name);
        frame_->set(Program::kCaller, std::move(*caller));
    } else if (stmt.uses.caller) {
        frame_->set(Program::kCaller, undefined("No caller defined"));
    }
    if (stmt.uses.kwargs) {
        Value::Pairs pairs;
        for (auto& [key, value] : args.named) pairs.emplace_back(text(key), std::move(value));
        frame_->set(Program::kKwargs, Value::dict(std::move(pairs), &heap_));
    } else if (!args.named.empty()) {
        return fail(ErrorCode::InvalidArgument, "macro '%s' takes no keyword argument '%s'", name,
                    args.named[0].first.c_str());
    }
    const size_t n_params = stmt.params.size();
    if (stmt.uses.varargs) {
        const auto begin =
            args.positional.begin() + static_cast<ptrdiff_t>(std::min(n_params, args.positional.size()));
        frame_->set(Program::kVarargs, tuple(Value::Items(begin, args.positional.end())));
    } else if (args.positional.size() > n_params) {
        return fail(ErrorCode::InvalidArgument, "macro '%s' takes not more than %zu argument(s)", name,
                    n_params);
    }
    return {};
}

}  // namespace tessera::jinja
