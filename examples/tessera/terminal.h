#pragma once
// What the terminal at hand can do.

namespace tessera::console {

/// Whether this is a terminal that can move its cursor: TERM is set, and not to "dumb".
bool is_screen(int fd);

}  // namespace tessera::console
