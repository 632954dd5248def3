#pragma once
// What a template can hold that is more than data: functions, macros, namespaces, loops.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/text/jinja/value.h"

namespace tessera::jinja {

class Runtime;

/// Arguments of a call as written, stars unpacked.
struct Args {
    Value::Items positional;
    std::vector<std::pair<std::string, Value>> named;
};

class Object : public Node, public std::enable_shared_from_this<Object> {
  public:
    using Node::Node;

    virtual const char* type_name() const = 0;
    /// Of the values it holds on to for good; 0 for objects that the runtime keeps and clears one by one.
    virtual size_t depth() const { return 0; }
    virtual std::string repr() const { return std::string("<") + type_name() + " object>"; }
    virtual bool is_callable() const { return false; }
    virtual Result<Value> call(Runtime& runtime, Args args);
    /// Nothing where there is no such attribute.
    virtual Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name);
    /// Sets a member; false where this object has none that can be set.
    virtual bool assign(const std::string& name, const Value& value);
    /// Lets go of every value held, so that circles of objects can end.
    virtual void clear() {}
};

}  // namespace tessera::jinja
