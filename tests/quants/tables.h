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

/// All tables but the scalar one. With TSR_TEST_BEST_TABLE in the environment only the best one: each of the
/// others is the best one of another emulated processor, which runs the same tests.
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

/// The first of those tables of all_tables() that share a function, given by function(table): each distinct
/// function once.
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
