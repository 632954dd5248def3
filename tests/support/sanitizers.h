#pragma once
// What tests do less of under ThreadSanitizer, where a forward pass takes ten times as long.

namespace tessera::test {

/// How threads meet shows in a few tokens as well as in many; results of every size are compared in other
/// builds.
#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
constexpr bool kThreadSanitizer = false;
#endif

}  // namespace tessera::test
