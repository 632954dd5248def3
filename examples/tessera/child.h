#pragma once
// Work in a process of its own, so that the memory it takes can be measured by itself and is given back
// whole.
#include <cstddef>
#include <functional>
#include <span>
#include <type_traits>

#include "common/expected.h"

namespace tessera {

/// Runs work() in a child of this process, which has no other threads, and copies what it has then made of
/// `answer` over here. Notes of the child are not shown. Errors: those of work(), Internal where the child
/// was ended, `what` saying by what.
Result<void> run_in_child(const char* what, std::span<std::byte> answer,
                          const std::function<Result<void>()>& work);

/// The same for work that returns plain data.
template <class T>
requires std::is_trivially_copyable_v<T> Result<T> in_child(const char* what,
                                                            const std::function<Result<T>()>& work) {
    T answer{};
    TSR_TRY_VOID(run_in_child(what, std::as_writable_bytes(std::span(&answer, 1)), [&]() -> Result<void> {
        TSR_TRY(answer, work());
        return {};
    }));
    return answer;
}

}  // namespace tessera
