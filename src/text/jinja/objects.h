#pragma once
// The objects of the language itself: macros and loops, which run parts of the template, and namespaces.
#include <functional>
#include <map>

#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

class MacroObject final : public Object {
  public:
    MacroObject(const Stmt& stmt, std::shared_ptr<Frame> frame, Heap* heap)
        : Object(heap, sizeof(MacroObject) + kFrameBytes), stmt_(stmt), frame_(std::move(frame)) {}

    const char* type_name() const override { return "Macro"; }
    std::string repr() const override { return "<Macro '" + stmt_.text + "'>"; }
    bool is_callable() const override { return true; }
    Result<Value> call(Runtime& runtime, Args args) override {
        return runtime.call_macro(*this, std::move(args));
    }
    Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name) override;
    void clear() override { frame_.reset(); }

    const Stmt& stmt() const { return stmt_; }
    const std::shared_ptr<Frame>& frame() const { return frame_; }

  private:
    static constexpr size_t kFrameBytes = 512;  // approximate size of a scope kept for it

    const Stmt& stmt_;
    std::shared_ptr<Frame> frame_;
};

/// The variable `loop`. Counts from 0; at() is set before each iteration.
class LoopObject final : public Object {
  public:
    LoopObject(const Stmt& stmt, std::shared_ptr<Frame> outer, Value::Items items, size_t level, Heap* heap)
        : Object(heap, sizeof(LoopObject) + items.size() * sizeof(Value)),
          stmt_(stmt),
          outer_(std::move(outer)),
          items_(std::move(items)),
          level_(level) {}

    const char* type_name() const override { return "LoopContext"; }
    std::string repr() const override;
    bool is_callable() const override { return stmt_.recursive; }
    Result<Value> call(Runtime& runtime, Args args) override;
    Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name) override;
    void clear() override;

    Result<Value> cycle(Runtime& runtime, const Args& args) const;
    Result<Value> changed(Runtime& runtime, const Args& args);

    const Stmt& stmt() const { return stmt_; }
    const std::shared_ptr<Frame>& outer() const { return outer_; }
    const Value::Items& items() const { return items_; }
    size_t level() const { return level_; }
    void set_at(size_t at) { at_ = at; }

  private:
    const Stmt& stmt_;
    std::shared_ptr<Frame> outer_;
    Value::Items items_;
    size_t level_, at_ = 0;
    bool has_last_ = false;
    Value::Items last_;  // last arguments of changed()
};

class NamespaceObject final : public Object {
  public:
    explicit NamespaceObject(Heap* heap) : Object(heap, sizeof(NamespaceObject)) {}

    const char* type_name() const override { return "Namespace"; }
    Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name) override;
    bool assign(const std::string& name, const Value& value) override;
    void clear() override { members_.clear(); }

  private:
    std::map<std::string, Value, std::less<>> members_;
};

}  // namespace tessera::jinja
