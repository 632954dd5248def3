#pragma once
// JSON reports: fields in the order they are written, one object a line.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace tessera {

using Json = nlohmann::ordered_json;

/// One line of valid UTF-8 with a line feed; bytes that are none come out as U+FFFD.
inline std::string json_line(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// For figures of measurements, whose last digits mean nothing.
inline double rounded(double value, int decimals = 3) {
    const double scale = std::pow(10.0, decimals);
    return std::round(value * scale) / scale;
}

}  // namespace tessera
