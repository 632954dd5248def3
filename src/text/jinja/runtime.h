#pragma once
// One render of a template: evaluates expressions, runs statements, and accounts for their cost. Filters and
// methods create values through it, so that limits hold for them as well.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/jinja/ast.h"
#include "src/text/jinja/builtins.h"
#include "src/text/jinja/datetime.h"
#include "src/text/jinja/limits.h"
#include "src/text/jinja/object.h"

namespace tessera::jinja {

/// The variables of one scope. Shared with macros defined in it, which may outlive it.
class Frame {
  public:
    explicit Frame(std::shared_ptr<Frame> parent) : parent_(std::move(parent)) {}

    const Value* find(uint32_t id) const;
    void set(uint32_t id, Value value);
    const std::shared_ptr<Frame>& parent() const { return parent_; }
    void clear() { variables_.clear(); }

  private:
    std::vector<std::pair<uint32_t, Value>> variables_;
    std::shared_ptr<Frame> parent_;
};

class LoopObject;
class MacroObject;

class Runtime {
  public:
    Runtime(const Program& program, const Limits& limits, const DateTime& now);
    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    /// Renders the whole template. `context` is a dict of its variables.
    Result<std::string> render(const Value& context);
    /// After an error: its offset in the source, and whether the template raised it.
    uint32_t error_offset() const { return error_offset_; }
    bool raised() const { return raised_; }

    // Making values.
    Value text(std::string value) { return Value::text(std::move(value), &heap_); }
    Value markup(std::string value) { return Value::markup(std::move(value), &heap_); }
    /// Markup where `model` is, else text.
    Value text_like(const Value& model, std::string value) {
        return model.is_markup() ? markup(std::move(value)) : text(std::move(value));
    }
    Value list(Value::Items items) { return Value::list(std::move(items), &heap_); }
    Value tuple(Value::Items items) { return Value::tuple(std::move(items), &heap_); }
    Value generator(Value::Items items) {
        return Value::sequence(Kind::Generator, std::move(items), "<generator object>", &heap_);
    }
    Value undefined(std::string why) { return Value::undefined(std::move(why), &heap_); }
    Heap* heap() { return &heap_; }
    /// Keeps an object until the end of the render, when it is cleared.
    void keep(std::shared_ptr<Object> object);
    const DateTime& now() const { return now_; }

    // Limits. Every loop over data charges its steps.
    Result<void> charge(size_t n_steps);
    /// Charges for work on n bytes.
    Result<void> charge_bytes(size_t n_bytes) { return charge(n_bytes / kBytesPerStep + 1); }
    /// Checks that a value of this size fits, and charges for making it; call before making it.
    Result<void> make_room(size_t n_bytes);
    /// The same without the charge.
    Result<void> check_room(size_t n_bytes) const;
    /// Number of bytes that a new value may have.
    size_t room() const {
        return limits_.max_live_bytes - std::min(limits_.max_live_bytes, heap_.live_bytes);
    }
    tl::unexpected<Error> raise(std::string message);

    // Operations on values.
    Result<Value> attribute(const Value& object, const std::string& name);
    Result<Value> item(const Value& object, const Value& key);
    Result<Value> slice(const Value& object, const Value* from, const Value* to, const Value* step);
    Result<Value> call(const Value& callee, Args args);
    Result<Value> filter(const std::string& name, const Value& object, const Args& args);
    Result<bool> test(const std::string& name, const Value& object, const Args& args);
    Result<Value> binary(Op op, const Value& a, const Value& b);
    Result<Value> negative(const Value& value, bool negate);
    Result<bool> compare(Op op, const Value& a, const Value& b);
    Result<bool> equal(const Value& a, const Value& b);
    Result<bool> less(const Value& a, const Value& b);
    Result<bool> contains(const Value& container, const Value& value);
    /// The elements of anything iterable: characters, keys, items. Undefined has none.
    Result<Value::Items> walk(const Value& value);
    /// len().
    Result<size_t> length(const Value& value);

    // Text.
    /// str(): the text that a template prints for a value.
    Result<std::string> str(const Value& value);
    Result<std::string> repr(const Value& value);
    /// Byte offset of the first occurrence at or after `from`, npos for none. Linear.
    Result<size_t> find(std::string_view text, std::string_view part, size_t from = 0);

    // Callbacks of objects that run parts of the template.
    Result<Value> call_macro(const MacroObject& macro, Args args);
    Result<Value> recurse(const LoopObject& loop, const Value& items);

  private:
    static constexpr size_t kBytesPerStep = 256;
    enum class Flow : uint8_t { Normal, Break, Continue };
    struct Level;
    struct Scope;

    Result<void> enter(uint32_t offset);
    Result<Value> evaluate(const Expr& expr);
    Result<Value> evaluate_kind(const Expr& expr);
    Result<Value> lookup(const Expr& expr);
    Result<Value> evaluate_items(const Expr& expr);
    Result<Value> evaluate_dict(const Expr& expr);
    Result<Value> evaluate_slice(const Expr& expr);
    Result<Value> evaluate_call(const Expr& expr, const Value* caller);
    Result<Value> evaluate_filter(const Expr& expr);
    Result<Value> evaluate_test(const Expr& expr);
    Result<Value> evaluate_logic(const Expr& expr);
    Result<Value> evaluate_concat(const Expr& expr);
    Result<Value> evaluate_binary(const Expr& expr);
    Result<Value> evaluate_compare(const Expr& expr);
    Result<Value> evaluate_choice(const Expr& expr);
    Result<Args> arguments(const Expr& expr);

    Result<Flow> run(const Body& body);
    Result<Flow> run_statement(const Stmt& stmt);
    Result<Flow> run_kind(const Stmt& stmt);
    Result<Flow> run_if(const Stmt& stmt);
    Result<Flow> run_for(const Stmt& stmt);
    Result<Flow> run_loop(const Stmt& stmt, const std::shared_ptr<Frame>& outer, const Value& iterable,
                          size_t depth);
    Result<Value::Items> chosen_items(const Stmt& stmt, const std::shared_ptr<Frame>& outer,
                                      Value::Items items);
    Result<Flow> run_set(const Stmt& stmt);
    Result<Flow> run_set_block(const Stmt& stmt);
    Result<Flow> run_macro(const Stmt& stmt);
    Result<Flow> run_call_block(const Stmt& stmt);
    Result<Flow> run_filter(const Stmt& stmt);
    Result<Flow> run_with(const Stmt& stmt);
    Result<Flow> run_scope(const Stmt& stmt);
    Result<void> assign(const Target& target, const Value& value);
    Result<void> fill_parameters(const MacroObject& macro, Args args);
    Result<void> print(std::string_view text);
    /// Runs a body in a scope of its own and returns its text.
    Result<std::string> capture(const Body& body);

    Result<void> write(std::string& out, const Value& value, bool as_repr);
    Result<void> write_sequence(std::string& out, const Value& value);
    Result<void> write_dict(std::string& out, const Value& value);
    Result<Value> add(const Value& a, const Value& b);
    Result<Value> multiply(const Value& a, const Value& b);
    Result<Value> repeat(const Value& value, Integer times);
    Result<Value> item_at(const Value& object, const Value& key);

    const Program& program_;
    const Limits& limits_;
    const DateTime& now_;
    Heap heap_;
    size_t n_steps_ = 0, work_seen_ = 0;
    uint32_t depth_ = 0;
    uint32_t error_offset_ = 0;
    bool has_error_ = false, raised_ = false;
    std::string output_;
    size_t n_captured_ = 0;  // bytes in outputs that are set aside while a block's text is caught
    Value slot_;
    std::shared_ptr<Frame> frame_;
    std::vector<std::shared_ptr<Frame>> kept_frames_;
    std::vector<std::shared_ptr<Object>> kept_objects_;
};

}  // namespace tessera::jinja
