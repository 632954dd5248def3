// Values: construction, properties that need no render (truth, keys, depth), and the index of dicts. Equality
// of containers, order and printing are charged to a render: see runtime.h.
#include "src/text/jinja/value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "common/utf8.h"
#include "src/text/jinja/object.h"

namespace tessera::jinja {

namespace {

// Below this, comparing keys one by one is faster than the index.
constexpr size_t kIndexedFrom = 9;

size_t count_chars(const std::string& text) {
    size_t n = 0;
    for (size_t at = 0; at < text.size(); n++) at += utf8::decode(std::string_view(text).substr(at)).n_bytes;
    return n;
}

size_t depth_of(const Value::Items& items) {
    size_t depth = 0;
    for (const Value& item : items) depth = std::max(depth, item.depth());
    return depth + 1;
}

size_t hash_text(std::string_view text) { return std::hash<std::string_view>{}(text); }

}  // namespace

TextNode::TextNode(std::string text_, Heap* heap)
    : Node(heap, sizeof(TextNode) + text_.size()), text(std::move(text_)), n_chars(count_chars(text)) {}

SequenceNode::SequenceNode(Value::Items items_, std::string label_, size_t depth_, Heap* heap)
    : Node(heap, sizeof(SequenceNode) + items_.size() * sizeof(Value), depth_),
      items(std::move(items_)),
      label(std::move(label_)),
      depth(depth_) {}

DictNode::DictNode(Value::Pairs pairs, size_t depth, Heap* heap)
    : Node(heap, sizeof(DictNode) + pairs.size() * (2 * sizeof(Value) + sizeof(index_[0])), depth),
      depth_(depth) {
    const bool indexed = pairs.size() >= kIndexedFrom;
    std::vector<std::pair<size_t, uint32_t>> order;
    for (size_t i = 0; indexed && i < pairs.size(); i++)
        order.emplace_back(pairs[i].first.hash(), static_cast<uint32_t>(i));
    std::sort(order.begin(), order.end());

    // first[i]: index of the first pair with the key of pair i.
    std::vector<uint32_t> first(pairs.size());
    for (size_t i = 0; i < pairs.size(); i++) first[i] = static_cast<uint32_t>(i);
    for (size_t i = 0; indexed && i < order.size(); i++)
        for (size_t j = i; j > 0 && order[j - 1].first == order[i].first; j--)
            if (Value::same_key(pairs[order[j - 1].second].first, pairs[order[i].second].first))
                first[order[i].second] = first[order[j - 1].second];
    for (size_t i = 0; !indexed && i < pairs.size(); i++)
        for (size_t j = i; j-- > 0;)
            if (Value::same_key(pairs[j].first, pairs[i].first)) first[i] = first[j];

    std::vector<uint32_t> place(pairs.size());
    for (size_t i = 0; i < pairs.size(); i++) {
        if (first[i] == i) {
            place[i] = static_cast<uint32_t>(pairs_.size());
            pairs_.push_back(std::move(pairs[i]));
        } else {
            pairs_[place[first[i]]].second = std::move(pairs[i].second);
        }
    }
    for (const auto& [hash, i] : order)
        if (first[i] == i) index_.emplace_back(hash, place[i]);
}

template <class Same>
const Value* DictNode::find_hashed(size_t hash, Same same) const {
    auto it = std::lower_bound(index_.begin(), index_.end(), std::pair<size_t, uint32_t>(hash, 0));
    for (; it != index_.end() && it->first == hash; ++it)
        if (same(pairs_[it->second].first)) return &pairs_[it->second].second;
    return nullptr;
}

const Value* DictNode::find(const Value& key) const {
    if (key.is_text()) return find(key.as_text());
    const auto same = [&](const Value& other) { return Value::same_key(other, key); };
    if (!index_.empty()) return find_hashed(key.hash(), same);
    for (const auto& [name, value] : pairs_)
        if (same(name)) return &value;
    return nullptr;
}

const Value* DictNode::find(std::string_view key) const {
    const auto same = [&](const Value& other) { return other.is_text() && other.as_text() == key; };
    if (!index_.empty()) return find_hashed(hash_text(key), same);
    for (const auto& [name, value] : pairs_)
        if (same(name)) return &value;
    return nullptr;
}

Value Value::undefined(std::string why, Heap* heap) {
    Value value;
    value.node_ = std::make_shared<TextNode>(std::move(why), heap);
    return value;
}

Value Value::none() {
    Value value;
    value.kind_ = Kind::None;
    return value;
}

Value Value::boolean(bool flag) {
    Value value;
    value.kind_ = Kind::Bool;
    value.low_ = flag;
    return value;
}

Value Value::integer(Integer number) {
    Value value;
    value.kind_ = Kind::Int;
    value.low_ = static_cast<uint64_t>(number);
    value.high_ = static_cast<int64_t>(number >> 64);
    return value;
}

Value Value::real(double number) {
    Value value;
    value.kind_ = Kind::Float;
    value.low_ = std::bit_cast<uint64_t>(number);
    return value;
}

Value Value::text(std::string text, Heap* heap) {
    Value value = undefined(std::move(text), heap);
    value.kind_ = Kind::String;
    return value;
}

Value Value::markup(std::string text, Heap* heap) {
    Value value = Value::text(std::move(text), heap);
    value.low_ = 1;
    return value;
}

Value Value::list(Items items, Heap* heap) { return sequence(Kind::List, std::move(items), {}, heap); }

Value Value::tuple(Items items, Heap* heap) { return sequence(Kind::Tuple, std::move(items), {}, heap); }

Value Value::sequence(Kind kind, Items items, std::string label, Heap* heap) {
    Value value;
    value.kind_ = kind;
    const size_t depth = depth_of(items);
    value.node_ = std::make_shared<SequenceNode>(std::move(items), std::move(label), depth, heap);
    return value;
}

Value Value::dict(Pairs pairs, Heap* heap) {
    Value value;
    value.kind_ = Kind::Dict;
    size_t depth = 1;
    for (const auto& [key, member] : pairs)
        depth = std::max(depth, 1 + std::max(key.depth(), member.depth()));
    value.node_ = std::make_shared<DictNode>(std::move(pairs), depth, heap);
    return value;
}

Value Value::dict_of(std::vector<std::pair<std::string, Value>> members) {
    Pairs pairs;
    for (auto& [name, value] : members) pairs.emplace_back(text(std::move(name)), std::move(value));
    return dict(std::move(pairs));
}

Value Value::object(std::shared_ptr<Object> object) {
    Value value;
    value.kind_ = Kind::Object;
    value.node_ = std::move(object);
    return value;
}

Integer Value::as_int() const {
    return kind_ == Kind::Bool ? low_ : (static_cast<Integer>(high_) << 64) | low_;
}

double Value::as_double() const {
    return kind_ == Kind::Float ? std::bit_cast<double>(low_) : static_cast<double>(as_int());
}

const std::string& Value::as_text() const {
    static const std::string empty;
    return node_ ? static_cast<const TextNode&>(*node_).text : empty;
}

size_t Value::n_chars() const { return static_cast<const TextNode&>(*node_).n_chars; }
const Value::Items& Value::items() const { return static_cast<const SequenceNode&>(*node_).items; }
const std::string& Value::label() const { return static_cast<const SequenceNode&>(*node_).label; }
const DictNode& Value::as_dict() const { return static_cast<const DictNode&>(*node_); }

std::shared_ptr<Object> Value::object_ptr() const {
    // Objects are created mutable; the pointer is const because all values share one pointer type.
    return std::const_pointer_cast<Object>(std::static_pointer_cast<const Object>(node_));
}

Object& Value::as_object() const { return const_cast<Object&>(static_cast<const Object&>(*node_)); }

Value::Items Value::take_items() const {
    const auto& node = static_cast<const SequenceNode&>(*node_);
    Items rest(node.items.begin() + static_cast<ptrdiff_t>(node.n_walked), node.items.end());
    node.n_walked = node.items.size();
    return rest;
}

bool Value::truthy() const {
    switch (kind_) {
        case Kind::Undefined:
        case Kind::None:
            return false;
        case Kind::Bool:
            return as_bool();
        case Kind::Int:
            return as_int() != 0;
        case Kind::Float:
            return as_double() != 0;
        case Kind::String:
            return !as_text().empty();
        case Kind::List:
        case Kind::Tuple:
        case Kind::View:
        case Kind::Range:
            return !items().empty();
        case Kind::Dict:
            return !as_dict().pairs().empty();
        case Kind::Generator:
        case Kind::Object:
            return true;
    }
    return false;
}

size_t Value::depth() const {
    if (is_sequence()) return static_cast<const SequenceNode&>(*node_).depth;
    if (is_dict()) return as_dict().depth();
    return is(Kind::Object) ? as_object().depth() : 0;
}

const char* Value::type_name() const {
    switch (kind_) {
        case Kind::Undefined:
            return "Undefined";
        case Kind::None:
            return "NoneType";
        case Kind::Bool:
            return "bool";
        case Kind::Int:
            return "int";
        case Kind::Float:
            return "float";
        case Kind::String:
            return "str";
        case Kind::List:
            return "list";
        case Kind::Tuple:
            return "tuple";
        case Kind::View:
            return "dict view";
        case Kind::Generator:
            return "generator";
        case Kind::Range:
            return "range";
        case Kind::Dict:
            return "dict";
        case Kind::Object:
            return as_object().type_name();
    }
    return "object";
}

bool Value::is_hashable() const {
    if (!is(Kind::Tuple)) return !is_sequence() && !is_dict();
    return depth() == 1;
}

size_t Value::hash() const {
    switch (kind_) {
        case Kind::String:
            return hash_text(as_text());
        case Kind::Bool:
        case Kind::Int:
        case Kind::Float:
            return std::hash<double>{}(as_double());
        case Kind::Tuple: {
            size_t sum = items().size();
            for (const Value& item : items()) sum = sum * 1000003 + item.hash();
            return sum;
        }
        case Kind::Object:
            return std::hash<const void*>{}(node_.get());
        default:
            return static_cast<size_t>(kind_);
    }
}

bool Value::same_key(const Value& a, const Value& b) {
    if (a.is_text() && b.is_text()) return a.as_text() == b.as_text();
    if (a.is_number() && b.is_number()) {
        if (a.is(Kind::Float) || b.is(Kind::Float)) return a.as_double() == b.as_double();
        return a.as_int() == b.as_int();
    }
    if (a.kind_ != b.kind_) return false;
    if (!a.is(Kind::Tuple)) return identical(a, b) || a.is_undefined();
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), same_key);
}

bool Value::identical(const Value& a, const Value& b) {
    if (a.kind_ != b.kind_) return false;
    return a.node_ == b.node_ && a.low_ == b.low_ && a.high_ == b.high_;
}

const Value* Value::find(std::string_view key) const { return is_dict() ? as_dict().find(key) : nullptr; }

}  // namespace tessera::jinja
