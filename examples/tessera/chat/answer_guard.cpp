// The handlers do only what POSIX allows in them: flags, tcsetattr(), sigaction() and raise(). A handler may
// run on any thread of the program.
#include "examples/tessera/chat/answer_guard.h"

#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace tessera::repl {

namespace {

std::atomic<int> n_interrupts{0}, ending{0};
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler may use no other

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP};
struct sigaction actions_before[std::size(kSignals)];
bool is_handled[std::size(kSignals)];
termios modes_before, modes_of_answer;
bool has_modes = false;
int deadly_interrupt = 2;  // the Ctrl-C that ends the program at once

/// Not from the background, where changing the modes would stop the program.
void set_modes(const termios& modes) {
    if (has_modes && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp()) ::tcsetattr(STDIN_FILENO, TCSANOW, &modes);
}

void take_default(int number) {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    ::sigaction(number, &action, nullptr);
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, number);
    ::raise(number);
    ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);  // here it takes effect
}

void handle(int number);

void install(int number, struct sigaction* before) {
    struct sigaction action = {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    ::sigaction(number, &action, before);
}

void handle(int number) {
    const int error = errno;
    if (number == SIGINT) {
        if (n_interrupts.fetch_add(1) + 1 >= deadly_interrupt) {
            set_modes(modes_before);
            take_default(number);
        }
    } else if (number == SIGTSTP) {
        set_modes(modes_before);
        take_default(number);
        install(number, nullptr);  // the program was continued
        set_modes(modes_of_answer);
    } else {
        ending.store(number);
    }
    errno = error;
}

}  // namespace

AnswerGuard::AnswerGuard() {
    n_interrupts.store(0);
    has_modes = ::tcgetattr(STDIN_FILENO, &modes_before) == 0;
    deadly_interrupt = has_modes ? 3 : 2;
    for (size_t i = 0; i < std::size(kSignals); i++) {
        ::sigaction(kSignals[i], nullptr, &actions_before[i]);
        // Signals that the parent had ignored stay so: nohup, a job in the background.
        is_handled[i] = actions_before[i].sa_handler != SIG_IGN;
        if (is_handled[i]) install(kSignals[i], nullptr);
    }
    if (!has_modes) return;
    modes_of_answer = modes_before;
    modes_of_answer.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
    modes_of_answer.c_cc[VMIN] = 1;
    modes_of_answer.c_cc[VTIME] = 0;
    set_modes(modes_of_answer);
}

AnswerGuard::~AnswerGuard() {
    set_modes(modes_before);
    for (size_t i = 0; i < std::size(kSignals); i++)
        if (is_handled[i]) ::sigaction(kSignals[i], &actions_before[i], nullptr);
}

bool AnswerGuard::interrupted() { return n_interrupts.load() > 0; }

int AnswerGuard::ending_signal() { return ending.load(); }

}  // namespace tessera::repl
