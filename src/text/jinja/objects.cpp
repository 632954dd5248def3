// Attributes and calls of objects. Macros and loops let Runtime run their bodies.
#include "src/text/jinja/objects.h"

#include <utility>

#include "src/text/jinja/markup.h"

namespace tessera::jinja {

namespace {

Value number(size_t n) { return Value::integer(static_cast<Integer>(n)); }

// A method of the loop; holds the loop it belongs to.
class LoopMethod final : public Object {
  public:
    LoopMethod(std::shared_ptr<Object> loop, bool is_cycle, Heap* heap)
        : Object(heap, sizeof(LoopMethod)), loop_(std::move(loop)), is_cycle_(is_cycle) {}

    const char* type_name() const override { return "method"; }
    bool is_callable() const override { return true; }
    Result<Value> call(Runtime& runtime, Args args) override {
        auto& loop = static_cast<LoopObject&>(*loop_);
        return is_cycle_ ? loop.cycle(runtime, args) : loop.changed(runtime, args);
    }

  private:
    std::shared_ptr<Object> loop_;
    bool is_cycle_;
};

class FunctionObject final : public Object {
  public:
    FunctionObject(const Builtin& builtin, Value self, Heap* heap)
        : Object(heap, sizeof(FunctionObject), self.depth() + 1), builtin_(builtin), self_(std::move(self)) {}

    size_t depth() const override { return self_.depth() + 1; }
    const char* type_name() const override { return "function"; }
    std::string repr() const override { return "<function " + std::string(builtin_.name) + ">"; }
    bool is_callable() const override { return true; }
    Result<Value> call(Runtime& runtime, Args args) override {
        if (self_.is_markup()) return call_markup_method(runtime, builtin_, self_, std::move(args));
        TSR_TRY(const Bound bound, bind(builtin_, args));
        return builtin_.function(runtime, self_, bound);
    }

  private:
    const Builtin& builtin_;
    const Value self_;
};

}  // namespace

Result<Value> Object::call(Runtime&, Args) {
    return fail(ErrorCode::InvalidArgument, "'%s' object is not callable", type_name());
}

Result<std::optional<Value>> Object::attribute(Runtime&, std::string_view) { return std::optional<Value>(); }

bool Object::assign(const std::string&, const Value&) { return false; }

std::shared_ptr<Object> make_function(const Builtin& builtin, Value self, Heap* heap) {
    return std::make_shared<FunctionObject>(builtin, std::move(self), heap);
}

Result<std::optional<Value>> MacroObject::attribute(Runtime& runtime, std::string_view name) {
    if (name == "name") return std::optional(runtime.text(stmt_.text));
    if (name == "caller") return std::optional(Value::boolean(stmt_.uses.caller));
    if (name == "catch_varargs") return std::optional(Value::boolean(stmt_.uses.varargs));
    if (name == "catch_kwargs") return std::optional(Value::boolean(stmt_.uses.kwargs));
    if (name != "arguments") return std::optional<Value>();
    Value::Items names;
    for (const Param& param : stmt_.params) names.push_back(runtime.text(param.name));
    return std::optional(runtime.tuple(std::move(names)));
}

std::string LoopObject::repr() const { return strf("<LoopContext %zu/%zu>", at_ + 1, items_.size()); }

Result<Value> LoopObject::call(Runtime& runtime, Args args) {
    if (!stmt_.recursive)
        return fail(ErrorCode::InvalidArgument, "'loop' can be called only in a loop marked 'recursive'");
    if (args.positional.size() != 1 || !args.named.empty())
        return fail(ErrorCode::InvalidArgument, "loop(): expected one argument, what to loop over");
    return runtime.recurse(*this, args.positional[0]);
}

Result<std::optional<Value>> LoopObject::attribute(Runtime& runtime, std::string_view name) {
    const size_t n = items_.size();
    const auto found = [](Value value) { return std::optional(std::move(value)); };
    if (name == "index") return found(number(at_ + 1));
    if (name == "index0") return found(number(at_));
    if (name == "revindex") return found(number(n - at_));
    if (name == "revindex0") return found(number(n - at_ - 1));
    if (name == "first") return found(Value::boolean(at_ == 0));
    if (name == "last") return found(Value::boolean(at_ + 1 == n));
    if (name == "length") return found(number(n));
    if (name == "depth") return found(number(level_ + 1));
    if (name == "depth0") return found(number(level_));
    if (name == "previtem")
        return found(at_ > 0 ? items_[at_ - 1] : runtime.undefined("there is no previous item"));
    if (name == "nextitem")
        return found(at_ + 1 < n ? items_[at_ + 1] : runtime.undefined("there is no next item"));
    if (name == "cycle" || name == "changed") {
        return found(
            Value::object(std::make_shared<LoopMethod>(shared_from_this(), name == "cycle", runtime.heap())));
    }
    return std::optional<Value>();
}

Result<Value> LoopObject::cycle(Runtime&, const Args& args) const {
    if (args.positional.empty()) return fail(ErrorCode::InvalidArgument, "loop.cycle(): expected items");
    return args.positional[at_ % args.positional.size()];
}

Result<Value> LoopObject::changed(Runtime& runtime, const Args& args) {
    bool same = has_last_ && last_.size() == args.positional.size();
    for (size_t i = 0; same && i < last_.size(); i++) {
        TSR_TRY(same, runtime.equal(last_[i], args.positional[i]));
    }
    has_last_ = true;
    last_ = args.positional;
    return Value::boolean(!same);
}

void LoopObject::clear() {
    outer_.reset();
    items_.clear();
    last_.clear();
}

Result<std::optional<Value>> NamespaceObject::attribute(Runtime&, std::string_view name) {
    const auto it = members_.find(name);
    return it == members_.end() ? std::nullopt : std::optional(it->second);
}

bool NamespaceObject::assign(const std::string& name, const Value& value) {
    members_.insert_or_assign(name, value);
    return true;
}

}  // namespace tessera::jinja
