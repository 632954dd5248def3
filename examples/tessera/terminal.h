#pragma once
// Abilities of the terminal.

namespace tessera::console {

/// Whether this is a terminal with a movable cursor: TERM is set, and not to "dumb".
bool is_screen(int fd);

}  // namespace tessera::console
