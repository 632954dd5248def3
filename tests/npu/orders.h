#pragma once
// Orders in which the units of an emulated device may execute.
#include <algorithm>
#include <vector>

#include "src/npu/emulator.h"

namespace tessera::npu::test {

inline std::vector<Order> priorities() {
    std::vector<Order> orders;
    std::array<Unit, kUnits> units = {Unit::Dma, Unit::Hvx, Unit::Hmx};
    do orders.push_back({Order::Kind::Priority, units, 0});
    while (std::next_permutation(units.begin(), units.end()));
    return orders;
}

}  // namespace tessera::npu::test
