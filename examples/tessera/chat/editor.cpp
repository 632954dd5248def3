// The only file that knows libedit. A paste arrives between two marks that terminals put around it when asked
// to ("bracketed paste"): its line feeds become part of the text instead of ending it. Assumes LC_CTYPE is
// UTF-8, which make_editor() sees to.
#include <histedit.h>
#include <signal.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>

#include "common/strings.h"
#include "examples/tessera/chat/line_reader.h"
#include "examples/tessera/console.h"

namespace tessera::repl {

namespace {

constexpr const char* kPasteBegins = "\033[200~";
constexpr const char* kPasteEnds = "\033[201~";
constexpr const char* kPastesMarked = "\033[?2004h";
constexpr const char* kPastesPlain = "\033[?2004l";
constexpr std::wstring_view kWidePasteEnds = L"\033[201~";

/// What terminals send for keys of editing. libedit binds the one that the terminal's description has, which
/// is often another terminal's, as in tmux and screen.
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

/// libedit's functions report by a negative number, without a reason.
class Editor : public LineReader {
  public:
    Editor(HistoryFile file, std::vector<std::string> commands, bool colours)
        : file_(std::move(file)), commands_(std::move(commands)), colours_(colours) {}
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
    std::vector<std::string> commands_;
    bool colours_;
    EditLine* el_ = nullptr;
    History* history_ = nullptr;
    std::string prompt_;
    bool interrupted_ = false;
    std::string newest_;
    bool told_of_history_ = false;
};

Result<void> Editor::open() {
    // Only the type of characters: numbers are written as in C everywhere.
    if (!std::setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
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
    // Ctrl-C is a key while a line is edited, so that it can mean the line alone; and so is Ctrl-Z then.
    ::el_set(el_, EL_SETTY, "-d", "-isig", nullptr);
    ::el_set(el_, EL_ADDFN, "tessera-interrupt", "take the line back", on_interrupt);
    ::el_set(el_, EL_ADDFN, "tessera-suspend", "stop the program", on_suspend);
    ::el_set(el_, EL_ADDFN, "tessera-paste", "insert a pasted text", on_paste);
    ::el_set(el_, EL_ADDFN, "tessera-complete", "complete a command", on_complete);
    for (const Key& key : kKeys) ::el_set(el_, EL_BIND, key.sent, key.command, nullptr);
    ::el_source(el_, nullptr);
    TSR_TRY(const std::vector<std::string> earlier, file_.load());
    for (const std::string& text : earlier) add(text);
    return {};
}

unsigned char Editor::on_interrupt(EditLine* el, wint_t) {
    of(el).interrupted_ = true;
    return CC_EOF;
}

/// libedit's handler gives the terminal back meanwhile.
unsigned char Editor::on_suspend(EditLine*, wint_t) {
    std::fputs(kPastesPlain, stdout);
    std::fflush(stdout);
    ::raise(SIGTSTP);
    std::fputs(kPastesMarked, stdout);
    std::fflush(stdout);
    return CC_REDISPLAY;
}

/// Reads up to the mark that ends the paste. Carriage returns, which terminals send for line feeds, become
/// those; other control characters go.
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

/// "/br" becomes "/branch", as far as all commands that begin so agree.
unsigned char Editor::on_complete(EditLine* el, wint_t) {
    const LineInfo* line = ::el_line(el);
    const std::string typed(line->buffer, line->cursor);
    std::string common;
    int n = 0;
    for (const std::string& command : of(el).commands_) {
        if (!command.starts_with(typed)) continue;
        if (n++ == 0) common = command + " ";
        size_t same = 0;
        while (same < common.size() && same < command.size() && common[same] == command[same]) same++;
        if (n > 1) common.resize(same);
    }
    if (typed.empty() || n == 0 || common.size() <= typed.size()) return CC_ERROR;
    return ::el_insertstr(el, common.substr(typed.size()).c_str()) == 0 ? CC_REFRESH : CC_ERROR;
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
    if (interrupted_) return Input{Input::Kind::Interrupt, ""};
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
    // A history that cannot be kept is no reason to end a conversation, nor to say so each time.
    if (!kept && !told_of_history_) console::note("warning: %s", kept.error().message.c_str());
    told_of_history_ = told_of_history_ || !kept;
}

}  // namespace

Result<std::unique_ptr<LineReader>> make_editor(HistoryFile history, std::vector<std::string> commands,
                                                bool colours) {
    auto editor = std::make_unique<Editor>(std::move(history), std::move(commands), colours);
    TSR_TRY_VOID(editor->open());
    return std::unique_ptr<LineReader>(std::move(editor));
}

}  // namespace tessera::repl
