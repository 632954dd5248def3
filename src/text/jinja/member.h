#pragma once
// Paths such as "a.b.0", which filters take as `attribute`.
#include <vector>

#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

class MemberPath {
  public:
    /// None selects the item itself. `preset` replaces undefined members, unless it is undefined.
    explicit MemberPath(const Value& attribute, Value preset = {});

    Result<Value> of(Runtime& runtime, const Value& item) const;

  private:
    std::vector<Value> keys_;
    Value preset_;
};

/// Text in lower case, for comparisons; other values as they are.
Value without_case(Runtime& runtime, Value value);

}  // namespace tessera::jinja
