#pragma once
// Runs work in a process of its own, so that its memory can be measured separately and is freed completely.
#include <cstddef>
#include <functional>
#include <span>
#include <type_traits>

#include "common/expected.h"

namespace tessera {

/// Runs work() in a child of this process, which must have no other threads, and copies `answer` back. Notes
/// of the child are not shown. Errors: those of work(); Internal, with `what`, if a signal ended the child.
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
