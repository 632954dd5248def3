// The only file that uses libedit. Terminals put two marks around a pasted text ("bracketed paste"), so that
// its line feeds become part of the text instead of ending it. Assumes that LC_CTYPE is UTF-8 (chat.cpp sets
// it).
#include <histedit.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <cwchar>

#include "common/strings.h"
#include "common/utf8.h"
#include "examples/tessera/chat/line_reader.h"
#include "examples/tessera/chat/word_wrap.h"
#include "examples/tessera/console.h"

namespace tessera::repl {

namespace {

constexpr const char* kPasteBegins = "\033[200~";
constexpr const char* kPasteEnds = "\033[201~";
constexpr const char* kPastesMarked = "\033[?2004h";
constexpr const char* kPastesPlain = "\033[?2004l";
constexpr std::wstring_view kWidePasteEnds = L"\033[201~";

/// The sequences that terminals send for editing keys. libedit binds only the one in the terminal's
/// description, which is often that of another terminal, as in tmux and screen.
struct Key {
    const char* sent;
    const char* command;
};
constexpr Key kKeys[] = {
    {"\033[H", "ed-move-to-beg"},  {"\033OH", "ed-move-to-beg"},  {"\033[1~", "ed-move-to-beg"},
    {"\033[7~", "ed-move-to-beg"}, {"\033[F", "ed-move-to-end"},  {"\033OF", "ed-move-to-end"},
    {"\033[4~", "ed-move-to-end"}, {"\033[8~", "ed-move-to-end"}, {"\033[3~", "ed-delete-next-char"},
    {"\033[1;5C", "em-next-word"}, {"\033[1;5D", "ed-prev-word"}, {"\033[1;3C", "em-next-word"},
    {"\033[1;3D", "ed-prev-word"}, {"^R", "em-inc-search-prev"},  {"^C", "tessera-interrupt"},
    {"^Z", "tessera-suspend"},     {"^I", "tessera-complete"},    {kPasteBegins, "tessera-paste"},
};

/// libedit's functions report an error by a negative number, without a reason.
class Editor : public LineReader {
  public:
    Editor(HistoryFile file, Completer completer, bool colours)
        : file_(std::move(file)), completer_(std::move(completer)), colours_(colours) {}
    ~Editor() override {
        if (history_) ::history_end(history_);
        if (el_) ::el_end(el_);
    }
    Editor(const Editor&) = delete;
    Editor& operator=(const Editor&) = delete;

    Result<void> open();
    Result<Input> read(const std::string& prompt, const std::string& prefill) override;
    void remember(const std::string& text) override;
    bool edits() const override { return true; }

  private:
    static Editor& of(EditLine* el) {
        void* self = nullptr;
        ::el_get(el, EL_CLIENTDATA, &self);
        return *static_cast<Editor*>(self);
    }
    static char* prompt_of(EditLine* el) { return of(el).prompt_.data(); }
    static unsigned char on_interrupt(EditLine* el, wint_t);
    static unsigned char on_suspend(EditLine* el, wint_t);
    static unsigned char on_paste(EditLine* el, wint_t);
    static unsigned char on_complete(EditLine* el, wint_t);
    void add(const std::string& text);

    HistoryFile file_;
    Completer completer_;
    bool colours_;
    EditLine* el_ = nullptr;
    History* history_ = nullptr;
    std::string prompt_;
    bool interrupted_ = false;
    std::string removed_;  // by Ctrl-C
    std::string newest_;
    bool warned_of_history_ = false;
};

Result<void> Editor::open() {
    el_ = ::el_init("tessera", stdin, stdout, stderr);
    history_ = ::history_init();
    if (!el_ || !history_) return fail(ErrorCode::Io, "the terminal cannot be used for editing lines");
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, static_cast<int>(HistoryFile::kMost));
    ::el_set(el_, EL_CLIENTDATA, this);
    ::el_set(el_, EL_EDITOR, "emacs");
    ::el_set(el_, EL_SIGNAL, 1);
    ::el_set(el_, EL_HIST, ::history, history_);
    ::el_set(el_, EL_PROMPT_ESC, prompt_of, '\1');
    // Without isig Ctrl-C is a key while a line is edited, and acts on the line alone. So Ctrl-Z is a key,
    // too.
    ::el_set(el_, EL_SETTY, "-d", "-isig", nullptr);
    ::el_set(el_, EL_ADDFN, "tessera-interrupt", "remove the line", on_interrupt);
    ::el_set(el_, EL_ADDFN, "tessera-suspend", "stop the program", on_suspend);
    ::el_set(el_, EL_ADDFN, "tessera-paste", "insert a pasted text", on_paste);
    ::el_set(el_, EL_ADDFN, "tessera-complete", "complete a command or its argument", on_complete);
    for (const Key& key : kKeys) ::el_set(el_, EL_BIND, key.sent, key.command, nullptr);
    ::el_source(el_, nullptr);
    TSR_TRY(const std::vector<std::string> earlier, file_.load());
    for (const std::string& text : earlier) add(text);
    return {};
}

/// The removed text stays on the screen, as in a shell.
unsigned char Editor::on_interrupt(EditLine* el, wint_t) {
    Editor& self = of(el);
    self.interrupted_ = true;
    const LineInfo* line = ::el_line(el);
    self.removed_.assign(line->buffer, line->lastchar);
    const LineInfoW* wide = ::el_wline(el);
    ::el_cursor(el, static_cast<int>(wide->lastchar - wide->cursor));
    ::el_set(el, EL_REFRESH);
    if (!self.removed_.empty()) std::fputs("^C", stdout);
    return CC_EOF;
}

/// libedit's own handler resets the terminal while the program is stopped.
unsigned char Editor::on_suspend(EditLine*, wint_t) {
    std::fputs(kPastesPlain, stdout);
    std::fflush(stdout);
    ::raise(SIGTSTP);
    std::fputs(kPastesMarked, stdout);
    std::fflush(stdout);
    return CC_REDISPLAY;
}

/// Reads up to the mark that ends the paste. Carriage returns, which terminals send for line feeds, become
/// line feeds; other control characters are removed.
unsigned char Editor::on_paste(EditLine* el, wint_t) {
    std::wstring text;
    wchar_t c = 0;
    while (!text.ends_with(kWidePasteEnds)) {
        if (::el_wgetc(el, &c) != 1) return CC_EOF;
        text += c;
    }
    text.resize(text.size() - kWidePasteEnds.size());
    std::wstring clean;
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] == L'\r' && i + 1 < text.size() && text[i + 1] == L'\n') continue;
        if (text[i] == L'\r') text[i] = L'\n';
        if (text[i] >= 0x20 || text[i] == L'\n' || text[i] == L'\t') clean += text[i];
    }
    if (!clean.empty() && ::el_winsertstr(el, clean.c_str()) != 0) return CC_ERROR;
    return CC_REFRESH;
}

/// In columns as wide as the longest text needs, at most kMost of them. Of paths only the last part is shown.
void print_candidates(const std::vector<std::string>& texts) {
    constexpr size_t kMost = 100, kScreen = 78;
    std::vector<std::string> names;
    size_t widest = 0;
    for (const std::string& text : texts) {
        const size_t slash = text.size() < 2 ? std::string::npos : text.rfind('/', text.size() - 2);
        names.push_back(slash == std::string::npos || slash == 0 ? text : text.substr(slash + 1));
        widest = std::max(widest, text_width(names.back()));
    }
    const size_t per_line = std::max<size_t>(1, kScreen / (widest + 2));
    std::string out = "\n";
    for (size_t i = 0; i < names.size() && i < kMost; i++) {
        const bool ends_line = (i + 1) % per_line == 0 || i + 1 == std::min(names.size(), kMost);
        out += names[i] + (ends_line ? "\n" : std::string(widest + 2 - text_width(names[i]), ' '));
    }
    if (names.size() > kMost) out += strf("... and %zu more\n", names.size() - kMost);
    std::fputs(out.c_str(), stdout);
    std::fflush(stdout);
}

/// Inserts what all candidates have in common, and lists them where that is nothing more.
unsigned char Editor::on_complete(EditLine* el, wint_t) {
    const LineInfo* line = ::el_line(el);
    const std::string typed(line->buffer, line->cursor);
    const Completions found = of(el).completer_(typed);
    if (found.texts.empty()) return CC_ERROR;
    const std::string word = typed.substr(found.begin);
    std::string common = found.texts.front();
    for (const std::string& text : found.texts) {
        const auto [end, ignored] = std::mismatch(common.begin(), common.end(), text.begin(), text.end());
        common.erase(end, common.end());
    }
    common.resize(utf8::complete_prefix(common));
    if (found.texts.size() == 1 && !common.ends_with('/')) common += ' ';
    if (common.size() > word.size() && common.starts_with(word))
        return ::el_insertstr(el, common.substr(word.size()).c_str()) == 0 ? CC_REFRESH : CC_ERROR;
    if (found.texts.size() == 1) return CC_ERROR;
    print_candidates(found.texts);
    return CC_REDISPLAY;
}

Result<Input> Editor::read(const std::string& prompt, const std::string& prefill) {
    prompt_ = colours_ ? "\1\033[1;36m\1" + prompt + "\1\033[0m\1" : prompt;
    interrupted_ = false;
    const std::string pasted = kPasteBegins + prefill + kPasteEnds;
    if (!prefill.empty()) ::el_push(el_, pasted.c_str());
    std::fputs(kPastesMarked, stdout);
    std::fflush(stdout);
    int n = 0;
    const char* line = ::el_gets(el_, &n);
    std::fputs(kPastesPlain, stdout);
    if (interrupted_ || !line || n <= 0) std::fputs("\n", stdout);
    std::fflush(stdout);
    if (interrupted_) return Input{Input::Kind::Interrupt, std::move(removed_)};
    if (!line || n <= 0) return Input{Input::Kind::End, ""};
    std::string text(line, static_cast<size_t>(n));
    if (text.ends_with('\n')) text.pop_back();
    TSR_TRY_VOID(console::check_utf8(text, "the line"));
    return Input{Input::Kind::Text, std::move(text)};
}

void Editor::add(const std::string& text) {
    HistEvent event;
    ::history(history_, &event, H_ENTER, text.c_str());
    newest_ = text;
}

void Editor::remember(const std::string& text) {
    if (trim(text).empty() || text == newest_) return;
    add(text);
    const Result<void> kept = file_.append(text);
    // A history that cannot be written does not end the conversation; one warning is enough.
    if (!kept && !warned_of_history_) console::note("warning: %s", kept.error().message.c_str());
    warned_of_history_ = warned_of_history_ || !kept;
}

}  // namespace

Result<std::unique_ptr<LineReader>> make_editor(HistoryFile history, Completer completer, bool colours) {
    auto editor = std::make_unique<Editor>(std::move(history), std::move(completer), colours);
    TSR_TRY_VOID(editor->open());
    return std::unique_ptr<LineReader>(std::move(editor));
}

}  // namespace tessera::repl
