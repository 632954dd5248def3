#pragma once
// Ranges of a model's activations, collected by running it over a text. They determine the encoding of each
// activation. Stored as a JSON file.
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/npu/graph.h"

namespace tessera::npu {

struct Range {
    float min = 0, max = 0;  ///< finite, min <= max

    bool operator==(const Range&) const = default;
    float largest() const { return std::max(std::max(-min, max), 0.0f); }
};

struct Ranges {
    uint64_t model = 0;               ///< digest of the model's file; 0: unknown
    int64_t n_tok = 0;                ///< tokens that were evaluated, at least 1
    std::map<std::string, Range> of;  ///< by GraphValue::name

    /// The range of a value; NotFound if there is none.
    Result<Range> find(const std::string& value) const;
    std::string to_json() const;
    /// XXH64 of to_json().
    uint64_t hash() const;
};

/// Reads what to_json() wrote: {"model": "16 digits", "n_tok": 1, "ranges": {"x": [-1, 1]}}. Errors name the
/// field.
Result<Ranges> parse_ranges(std::string_view json);

/// Reads a file and checks that it belongs to the model with this digest. Every error names the file.
Result<Ranges> read_ranges(const std::string& path, uint64_t model);

/// Collects minimum and maximum of every value of a graph over any number of runs.
class RangeCollector {
  public:
    /// The graph must outlive the collector.
    explicit RangeCollector(const Graph& graph);

    /// A FloatRun::Observer.
    void add(GraphValueId id, std::span<const float> x);

    /// Malformed names the first value that was not finite. Values that no run computed are left out.
    Result<Ranges> take(uint64_t model, int64_t n_tok) const;

  private:
    struct Seen {
        Range range;
        bool any = false, is_finite = true;
    };
    const Graph& graph_;
    std::vector<Seen> seen_;
};

}  // namespace tessera::npu
