#pragma once
// The kernel tables that tests compare: those that this machine can run, and the emulated ones.
#include <cstdlib>
#include <vector>

#include "quants/dispatch.h"
#if defined(TSR_HAVE_EMULATED)
#include "common/cpu.h"
#include "tests/quants/emulated/tables.h"
#endif

namespace tessera::test {

inline const kernels::KernelTable& scalar() { return *kernels::all_isas().back().table; }

/// The scalar table excepted. With TSR_TEST_BEST_TABLE in the environment the best one alone, where each of
/// the others is the best of another processor that the same tests run on.
inline std::vector<const kernels::KernelTable*> vector_tables() {
    std::vector<const kernels::KernelTable*> tables;
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        if (isa.usable && isa.table != &scalar()) tables.push_back(isa.table);
        if (std::getenv("TSR_TEST_BEST_TABLE") && tables.size() == 1) return tables;
    }
#if defined(TSR_HAVE_EMULATED)
    if (cpu_features().avx2) {
        tables.push_back(&kernels::kEmulatedAvxVnniTable);
        tables.push_back(&kernels::kEmulatedAvx512VnniTable);
    }
#endif
    return tables;
}

/// The scalar table first.
inline std::vector<const kernels::KernelTable*> all_tables() {
    std::vector<const kernels::KernelTable*> tables = vector_tables();
    tables.insert(tables.begin(), &scalar());
    return tables;
}

/// Of all_tables() the first of those that share a function, as function(table) gives it: what there is to
/// test of it.
template <class Function>
std::vector<const kernels::KernelTable*> tables_by(Function function) {
    std::vector<const kernels::KernelTable*> tables;
    for (const kernels::KernelTable* table : all_tables()) {
        bool known = false;
        for (const kernels::KernelTable* other : tables)
            known = known || function(*other) == function(*table);
        if (!known) tables.push_back(table);
    }
    return tables;
}

}  // namespace tessera::test
