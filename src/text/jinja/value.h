#pragma once
// The values of templates, with Python's semantics. Immutable once created, so that renders and threads share
// them; mutable ones (namespaces, loops) are Objects, which live in one render.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/expected.h"

namespace tessera::jinja {

/// Python's integers, limited to 128 bits; overflow is an error.
using Integer = __int128;

enum class Kind : uint8_t {
    Undefined,  ///< the value of an unknown name or missing key, which its text names
    None,
    Bool,
    Int,
    Float,
    String,
    List,
    Tuple,
    View,       ///< keys(), values(), items() of a dict
    Generator,  ///< the result of map, select and similar filters: can be iterated once, has no length
    Range,
    Dict,
    Object,  ///< namespaces, loops, macros, functions
};

/// Memory accounting of one render. Values created outside of it (the context, literals) are not counted.
struct Heap {
    size_t live_bytes = 0;
    size_t made_bytes = 0;  ///< total ever created; a measure of work
    size_t deepest = 0;     ///< depth of the deepest value
};

/// Base of everything a Value points to. Accounts for itself in the heap it was created in, which must
/// outlive it.
class Node {
  public:
    Node(Heap* heap, size_t n_bytes, size_t depth = 0) : heap_(heap), n_bytes_(n_bytes) {
        if (!heap_) return;
        heap_->live_bytes += n_bytes_;
        heap_->made_bytes += n_bytes_;
        if (depth > heap_->deepest) heap_->deepest = depth;
    }
    virtual ~Node() {
        if (heap_) heap_->live_bytes -= n_bytes_;
    }
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

  private:
    Heap* heap_;
    size_t n_bytes_;
};

class Object;
class DictNode;
struct SequenceNode;
struct TextNode;

class Value {
  public:
    using Items = std::vector<Value>;
    using Pairs = std::vector<std::pair<Value, Value>>;

    /// Undefined, with no name.
    Value() = default;
    /// `why` is the message of the error raised when it is used.
    static Value undefined(std::string why, Heap* heap = nullptr);
    static Value none();
    static Value boolean(bool value);
    static Value integer(Integer value);
    static Value real(double value);
    static Value text(std::string value, Heap* heap = nullptr);
    /// Text that counts as HTML already (markup.h).
    static Value markup(std::string value, Heap* heap = nullptr);
    static Value list(Items items, Heap* heap = nullptr);
    static Value tuple(Items items, Heap* heap = nullptr);
    /// Any kind of sequence; `label` is how a view, range or generator prints.
    static Value sequence(Kind kind, Items items, std::string label, Heap* heap = nullptr);
    /// Of equal keys the last value is kept, at the position of the first. Keys must be hashable
    /// (is_hashable).
    static Value dict(Pairs pairs, Heap* heap = nullptr);
    /// For callers that build contexts: a dict with names as keys.
    static Value dict_of(std::vector<std::pair<std::string, Value>> members);
    static Value object(std::shared_ptr<Object> object);

    Kind kind() const { return kind_; }
    bool is(Kind kind) const { return kind_ == kind; }
    bool is_undefined() const { return kind_ == Kind::Undefined; }
    bool is_none() const { return kind_ == Kind::None; }
    bool is_text() const { return kind_ == Kind::String; }
    bool is_markup() const { return is_text() && low_ != 0; }
    bool is_dict() const { return kind_ == Kind::Dict; }
    /// List, tuple, view, generator or range.
    bool is_sequence() const { return kind_ >= Kind::List && kind_ <= Kind::Range; }
    /// Bool, int or float.
    bool is_number() const { return kind_ >= Kind::Bool && kind_ <= Kind::Float; }
    /// Bool or int: usable as an index.
    bool is_integral() const { return kind_ == Kind::Bool || kind_ == Kind::Int; }

    /// Each of these is valid only for the kinds it names.
    bool as_bool() const { return low_ != 0; }
    Integer as_int() const;                      ///< Bool, Integer
    double as_double() const;                    ///< any number
    const std::string& as_text() const;          ///< String; for Undefined the reason, maybe empty
    size_t n_chars() const;                      ///< String: code points
    const Items& items() const;                  ///< sequences; all items of a generator
    const std::string& label() const;            ///< sequences
    const DictNode& as_dict() const;             ///< Dict
    Object& as_object() const;                   ///< Object
    std::shared_ptr<Object> object_ptr() const;  ///< Object
    /// Generator: returns the items not yet iterated, and marks them as iterated.
    Items take_items() const;

    /// Python's truth of a value. An object's is true.
    bool truthy() const;
    /// Levels of containers: 0 for scalars, 1 for a list of scalars.
    size_t depth() const;
    /// Python's name of the type: "str", "NoneType".
    const char* type_name() const;
    /// Whether it may be a dict's key: a scalar, or a tuple of scalars.
    bool is_hashable() const;
    size_t hash() const;
    /// Equality of hashable values as in Python: 1 == 1.0 == True.
    static bool same_key(const Value& a, const Value& b);
    /// The same object in memory, or the same scalar.
    static bool identical(const Value& a, const Value& b);

    /// Member of a dict by name; null if absent or not a dict. Valid as long as this value.
    const Value* find(std::string_view key) const;

  private:
    Kind kind_ = Kind::Undefined;
    uint64_t low_ = 0;  // bool, the low half of an int, the bits of a float; of text: whether it is markup
    int64_t high_ = 0;  // the high half of an int
    std::shared_ptr<const Node> node_;
};

/// Nesting limit of values; exceeding it is an error. Recursion over a value is therefore safe.
constexpr size_t kMaxValueDepth = 128;

struct TextNode : Node {
    TextNode(std::string text_, Heap* heap);
    const std::string text;
    const size_t n_chars;  ///< code points; invalid bytes count as in utf8::decode
};

struct SequenceNode : Node {
    SequenceNode(Value::Items items_, std::string label_, size_t depth_, Heap* heap);
    const Value::Items items;
    const std::string label;
    const size_t depth;
    mutable size_t n_walked = 0;  ///< generators only, which live in one render
};

/// Pairs in the order of insertion.
class DictNode : public Node {
  public:
    DictNode(Value::Pairs pairs, size_t depth, Heap* heap);

    const Value::Pairs& pairs() const { return pairs_; }
    size_t depth() const { return depth_; }
    const Value* find(const Value& key) const;
    const Value* find(std::string_view key) const;

  private:
    template <class Same>
    const Value* find_hashed(size_t hash, Same same) const;

    Value::Pairs pairs_;
    size_t depth_;
    // Sorted (hash, index) pairs; empty for small dicts.
    std::vector<std::pair<size_t, uint32_t>> index_;
};

}  // namespace tessera::jinja
