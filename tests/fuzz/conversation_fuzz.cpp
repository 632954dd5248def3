// Any bytes as a conversation's file: refused, or a tree whose lines end with answers and whose own file
// gives it back.
#include <cstdio>
#include <cstdlib>

#include "examples/tessera/chat/conversation.h"

namespace {

using tessera::repl::Conversation;

void require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "violated: %s\n", what);
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto read = Conversation::parse({reinterpret_cast<const char*>(data), size});
    if (!read) return 0;
    for (const int end : read->ends()) {
        const std::vector<int> line = read->line_to(end);
        require(line.size() % 2 == 0, "questions have answers");
        for (size_t i = 0; i < line.size(); i++)
            require(read->message(line[i]).from_user == (i % 2 == 0), "turns are taken");
    }
    const auto again = Conversation::parse(read->to_json());
    require(again && *again == *read, "the file gives the conversation back");
    return 0;
}
