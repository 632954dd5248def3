#pragma once
// Values of a template other than data: functions, macros, namespaces, loops.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/text/jinja/value.h"

namespace tessera::jinja {

class Runtime;

/// Arguments of a call, with `*` and `**` expanded.
struct Args {
    Value::Items positional;
    std::vector<std::pair<std::string, Value>> named;
};

class Object : public Node, public std::enable_shared_from_this<Object> {
  public:
    using Node::Node;

    virtual const char* type_name() const = 0;
    /// Depth of the values it holds permanently; 0 for objects that the runtime keeps and clears.
    virtual size_t depth() const { return 0; }
    virtual std::string repr() const { return std::string("<") + type_name() + " object>"; }
    virtual bool is_callable() const { return false; }
    virtual Result<Value> call(Runtime& runtime, Args args);
    /// Nothing if there is no such attribute.
    virtual Result<std::optional<Value>> attribute(Runtime& runtime, std::string_view name);
    /// Sets a member; false if the object does not support that.
    virtual bool assign(const std::string& name, const Value& value);
    /// Releases all values held, to break reference cycles.
    virtual void clear() {}
};

}  // namespace tessera::jinja
