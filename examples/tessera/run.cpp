// tessera run: completes one prompt, printing as it writes. The engine does the work on its thread, whose
// callbacks print; this one waits, and looks for Ctrl-C.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>

#include "common/cpu.h"
#include "common/log.h"
#include "common/progress.h"
#include "common/strings.h"
#include "examples/tessera/answer_printer.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/constraint_flags.h"
#include "examples/tessera/default_model.h"
#include "examples/tessera/dialogue_flags.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"
#include "examples/tessera/sampling_flags.h"
#include "src/engine/engine.h"
#include "src/sample/model_defaults.h"

namespace tessera {

namespace {

struct RunArgs {
    ModelOptions model;
    SessionFlags session;
    NpuFlags npu;
    sample::Params sampling;
    DialogueFlags chat;
    ConstraintFlags constraint;
    std::vector<std::string> stop;
    std::string words, prompt, prompt_file;  // words: the argument behind MODEL
    bool has_prompt = false, reads_stdin = false, escape = false, interactive = false;
    int64_t n_predict = 256;
    bool parse_special = false, ignore_eos = false;
    bool echo = false, no_echo = false, stats = false, json = false;

    /// An answer does not continue the prompt, so a chat prints the prompt only with --echo.
    bool shows_prompt() const {
        return !json && !no_echo && (echo || (!chat.chat && console::is_terminal(STDOUT_FILENO)));
    }
};

/// "end of generation", "interrupted", ... as the user reads it.
const char* stop_name(engine::Finish finish) {
    switch (finish) {
        case engine::Finish::EndOfGeneration:
            return "end of generation";
        case engine::Finish::ContextFull:
            return "context full";
        case engine::Finish::Cancelled:
            return "interrupted";
        case engine::Finish::StopString:
            return "stop string";
        default:
            return engine::finish_name(finish);
    }
}

/// One completion: a request to an engine of its own.
class Run {
  public:
    explicit Run(const RunArgs& args) : args_(args) {}

    Result<void> run();

  private:
    Result<void> load();
    Result<void> read_prompt(const gguf::File& file);
    engine::Request request() const;
    Result<void> show(std::string_view text);
    Result<void> generate();
    Result<void> finish_text();
    Result<void> report();
    double prompt_rate() const;
    double decode_rate() const;

    const RunArgs& args_;
    LoadedModel loaded_;
    std::shared_ptr<const text::Tokenizer> tokenizer_;
    std::shared_ptr<const grammar::Grammar> grammar_;
    std::unique_ptr<engine::Engine> engine_;
    sample::Params sampling_;
    std::string prompt_;
    std::vector<int32_t> prompt_ids_;
    double load_seconds_ = 0, generate_seconds_ = 0;

    // Written by the engine's thread until the request has ended.
    std::optional<AnswerPrinter> answer_;  // of a chat
    std::string text_;
    std::vector<int32_t> ids_;
    engine::Outcome outcome_;
    std::string samplers_;
    Result<void> printed_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false, output_failed_ = false;
};

Result<void> Run::load() {
    const double start = now_seconds();
    TSR_TRY(grammar_, args_.constraint.create());
    TSR_TRY(gguf::File file, args_.model.file.open());
    TSR_TRY(ModelStart begun, start_model(file, args_.model));
    tokenizer_ = begun.loaded.tokenizer;
    TSR_TRY_VOID(read_prompt(file));
    sampling_ = args_.sampling;
    for (const std::string& name : sample::apply_model_defaults(file, sampling_))
        log::info("the model file sets the default of %s", name.c_str());
    TSR_TRY(auto npu, load_npu(args_.npu, args_.model.file));
    TSR_TRY(loaded_, load_model(std::move(file), args_.model, {args_.session.session(), 1, true}, npu.get(),
                                std::move(begun)));
    if (const int64_t trained = loaded_.model->hparams().n_ctx_train; args_.session.n_ctx > trained)
        log::warn(
            "the model was trained for a context of %lld tokens; beyond it the text may become incoherent",
            static_cast<long long>(trained));
    TSR_TRY(engine_, engine::Engine::create(loaded_.model, tokenizer_, *loaded_.pool,
                                            {.n_ctx = args_.session.n_ctx,
                                             .n_batch = args_.session.n_batch,
                                             .max_running = 1,
                                             .k_type = args_.session.k_type,
                                             .v_type = args_.session.v_type,
                                             .npu = std::move(npu)}));
    load_seconds_ = now_seconds() - start;
    return {};
}

Result<void> Run::read_prompt(const gguf::File& file) {
    prompt_ = args_.prompt;
    if (!args_.has_prompt) {
        TSR_TRY(prompt_, console::read_all(args_.reads_stdin ? "-" : args_.prompt_file));
        // The line feed that editors and echo put behind a text would make the model start a new line.
        if (prompt_.ends_with('\n')) prompt_.pop_back();
    }
    if (args_.chat.chat) {
        TSR_TRY(ChatTurn turn, args_.chat.turn(prompt_, file, tokenizer_));
        prompt_ids_ = std::move(turn.prompt.tokens);
        if (!grammar_) grammar_ = std::move(turn.calls);
        answer_.emplace(std::move(turn.parser), args_.json);
    } else {
        TSR_TRY(prompt_ids_, tokenizer_->encode(prompt_, {.parse_special = args_.parse_special}));
    }
    if (!args_.chat.chat && !args_.parse_special) {
        TSR_TRY(const auto parsed, tokenizer_->encode(prompt_, {.parse_special = true}));
        if (parsed != prompt_ids_)
            log::warn(
                "the prompt spells control tokens, which were taken as plain text; --parse-special makes "
                "them tokens");
    }
    if (prompt_ids_.empty())
        return fail(ErrorCode::InvalidArgument,
                    "the prompt is empty, and this model has no token to start from");
    return {};
}

engine::Request Run::request() const {
    engine::Request out;
    out.prompt = prompt_ids_;
    out.sampling = sampling_;
    out.max_tokens = args_.n_predict;
    out.stop = args_.stop;
    out.grammar = grammar_;
    out.ignore_eos = args_.ignore_eos;
    out.show_special = answer_.has_value();  // control tokens separate the parts of an answer
    return out;
}

Result<void> Run::show(std::string_view text) {
    if (answer_) return answer_->push(text);
    return args_.json ? Result<void>() : console::print(text);
}

/// Ctrl-C is an end like the others; so is an output that takes no more.
Result<void> Run::generate() {
    const auto n_prompt = static_cast<int64_t>(prompt_ids_.size());
    log::info("computing a prompt of %lld tokens", static_cast<long long>(n_prompt));
    std::optional<ProgressBar> bar;
    engine::Listener listener;
    if (n_prompt > args_.session.n_batch && console::verbosity() != console::Verbosity::Quiet) {
        bar.emplace("prompt", prompt_ids_.size(), ProgressBar::Unit::Tokens);
        listener.on_prompt = [&bar](int32_t, int64_t n_read, int64_t n_in_all) {
            bar->update(static_cast<uint64_t>(n_read));
            if (n_read == n_in_all) bar.reset();
        };
    }
    listener.on_delta = [this](const engine::Delta& delta) {
        text_ += delta.text;
        if (delta.id >= 0) ids_.push_back(delta.id);
        if (!printed_) return;
        printed_ = show(delta.text);
        if (printed_) return;
        const std::lock_guard lock(mutex_);
        output_failed_ = true;
        changed_.notify_all();
    };
    listener.on_finish = [this](const engine::Outcome& outcome) {
        outcome_ = outcome;
        for (const std::string_view name : outcome.samplers)
            samplers_ += (samplers_.empty() ? "" : ";") + std::string(name);
        const std::lock_guard lock(mutex_);
        ended_ = true;
        changed_.notify_all();
    };
    const console::InterruptGuard guard;
    const double start = now_seconds();
    TSR_TRY(engine::Ticket ticket, engine_->submit(request(), std::move(listener)));
    {
        std::unique_lock lock(mutex_);
        // A signal wakes nobody: it is looked for now and then.
        while (!ended_ && !output_failed_ && !guard.interrupted())
            changed_.wait_for(lock, std::chrono::milliseconds(20));
    }
    ticket.cancel();
    ticket.wait();
    generate_seconds_ = now_seconds() - start;
    if (outcome_.finish == engine::Finish::Failed) return tl::unexpected<Error>(outcome_.error);
    return printed_;
}

double Run::prompt_rate() const {
    const engine::Usage& usage = outcome_.usage;
    return usage.prompt_s > 0 ? static_cast<double>(usage.n_prompt) / usage.prompt_s : 0;
}

/// The first token comes out of the prompt.
double Run::decode_rate() const {
    const engine::Usage& usage = outcome_.usage;
    return usage.decode_s > 0 ? static_cast<double>(usage.n_generated - 1) / usage.decode_s : 0;
}

Result<void> Run::report() {
    const engine::Usage& usage = outcome_.usage;
    const auto seed = static_cast<unsigned long long>(outcome_.seed);
    if (args_.json) {
        Json object = {
            {"text", text_},
            {"tokens", ids_},
            {"prompt_tokens", prompt_ids_.size()},
            {"stop", stop_name(outcome_.finish)},
            {"seed", outcome_.seed},
            {"timings",
             {{"load_ms", rounded(load_seconds_ * 1e3)},
              {"prompt_ms", rounded(usage.prompt_s * 1e3)},
              {"prompt_tokens_per_s", rounded(prompt_rate())},
              {"decode_ms", rounded(usage.decode_s * 1e3)},
              {"decode_tokens_per_s", rounded(decode_rate())}}},
            {"peak_rss_bytes", peak_rss_bytes()},
            {"isa", loaded_.isa->name},
            {"threads", loaded_.pool->n_threads()},
        };
        if (answer_) object.update(answer_->to_json());
        TSR_TRY_VOID(console::print(json_line(object)));
    }
    if (outcome_.finish == engine::Finish::ContextFull)
        console::note("the context of %lld tokens is full; raise it with --ctx N",
                      static_cast<long long>(engine_->n_ctx()));
    if (!args_.stats) return {};
    std::fprintf(stderr, "model    %s\n", loaded_.description().c_str());
    std::fprintf(stderr, "load     %.0f ms\n", load_seconds_ * 1e3);
    if (usage.prompt_s > 0)
        std::fprintf(stderr, "prompt   %zu tokens in %.0f ms, %.1f tokens/s\n", prompt_ids_.size(),
                     usage.prompt_s * 1e3, prompt_rate());
    else
        std::fprintf(stderr, "prompt   %zu tokens, interrupted after %.0f ms\n", prompt_ids_.size(),
                     generate_seconds_ * 1e3);
    std::fprintf(stderr, "decode   %zu tokens in %.0f ms, %.1f tokens/s (stop: %s)\n", ids_.size(),
                 usage.decode_s * 1e3, decode_rate(), stop_name(outcome_.finish));
    std::fprintf(stderr, "memory   %s at peak, KV cache %s (%s, %lld positions)\n",
                 format_bytes(peak_rss_bytes()).c_str(), format_bytes(engine_->kv_bytes()).c_str(),
                 args_.session.kv_name().c_str(), static_cast<long long>(engine_->n_ctx()));
    std::fprintf(stderr, "sampling %s\n", samplers_.c_str());
    std::fprintf(stderr, "seed     %llu\n", seed);
    if (usage.n_rewinds > 0) std::fprintf(stderr, "rewinds  %lld\n", static_cast<long long>(usage.n_rewinds));
    return {};
}

Result<void> Run::finish_text() {
    if (answer_) return answer_->finish();
    return args_.json || text_.ends_with('\n') ? Result<void>() : console::print("\n");
}

Result<void> Run::run() {
    TSR_TRY_VOID(load());
    if (args_.shows_prompt()) TSR_TRY_VOID(console::print(prompt_ + (args_.chat.chat ? "\n" : "")));
    TSR_TRY_VOID(generate());
    TSR_TRY_VOID(finish_text());
    TSR_TRY_VOID(report());
    engine_.reset();
    engine::release_weights(loaded_.model->file(), *loaded_.pool);
    return {};
}

/// Whether any option or argument gives a prompt; known before check() sorts them out.
bool names_prompt(const RunArgs& args) {
    return args.has_prompt || !args.words.empty() || !args.prompt_file.empty() || args.model.file.path == "-";
}

Result<void> read_arguments(RunArgs& args) {
    std::string& model = args.model.file.path;
    for (std::string* dash : {&model, &args.words}) {
        if (*dash != "-") continue;
        args.reads_stdin = true;
        dash->clear();
    }
    const int n_prompts =
        args.has_prompt + !args.words.empty() + !args.prompt_file.empty() + args.reads_stdin;
    if (n_prompts == 0) {
        // Recognizes a prompt in the place of the model.
        if (!model.empty()) TSR_TRY_VOID(model_path(model));
        return fail(ErrorCode::InvalidArgument,
                    "a prompt is needed: tessera run MODEL \"PROMPT\", -p TEXT, -f FILE, or - for standard "
                    "input");
    }
    if (n_prompts > 1)
        return fail(ErrorCode::InvalidArgument, "expected one of PROMPT, -p, -f and -, found %d of them",
                    n_prompts);
    if (!args.words.empty()) {
        args.prompt = args.words;
        args.has_prompt = true;
    }
    if (!args.escape) return {};
    args.prompt = unescape(args.prompt);
    for (std::string& text : args.stop) text = unescape(text);
    return {};
}

Result<void> check(RunArgs& args) {
    TSR_TRY_VOID(read_arguments(args));
    TSR_TRY_VOID(args.chat.check());
    if (!args.chat.tool_choice.empty() && args.constraint.is_given())
        return fail(
            ErrorCode::InvalidArgument,
            "--tool-choice and constrained output (--grammar, --json-schema, ...) exclude each other");
    return args.constraint.check();
}

Action declare_run(Options& options) {
    auto args = std::make_shared<RunArgs>();
    args->model.declare(options);
    options.positional(
        "PROMPT", args->words,
        "The text to continue; - reads it from standard input. On a terminal, no prompt starts "
        "a chat.");
    options.group("Text");
    options.parsed(
        "-p,--prompt", "TEXT",
        [args](const std::string& text) -> Result<void> {
            args->prompt = text;
            args->has_prompt = true;
            return {};
        },
        "The text to continue, as PROMPT.");
    options.text("-f,--file", "FILE", args->prompt_file,
                 "Read the prompt from a file; a line feed at its end is dropped.");
    options.flag("-e,--escape", args->escape,
                 "Process \\n, \\t, \\r, \\\\, \\\", \\' and \\xHH in the prompt and in --stop.");
    options.integer("-n,--n-predict", args->n_predict, -1, int64_t{1} << 40,
                    "Most tokens to generate; -1: until the model ends or the context is full.");
    options.flag("--parse-special", args->parse_special,
                 "Turn text such as <|im_end|> into the control token it names.");
    options.repeated(
        "--stop", "TEXT",
        [args](const std::string& text) -> Result<void> {
            if (text.empty()) return fail(ErrorCode::InvalidArgument, "expected some text, found none");
            args->stop.push_back(text);
            return {};
        },
        "Stop before this text. May be given several times.");
    options.flag("--ignore-eos", args->ignore_eos, "Ignore the end-of-sequence token.");
    options.flag("--echo", args->echo, "Print the prompt before the text, as on a terminal.");
    options.flag("--no-echo", args->no_echo, "Print the generated text only, as into a pipe or file.");
    options.flag("--json", args->json, "Print one JSON object at the end instead of the text.");
    options.flag("--stats", args->stats, "Print times and memory on standard error at the end.");
    args->chat.declare(options);
    options.flag("-i,--interactive", args->interactive, "Chat instead, as tessera chat does.");
    args->constraint.declare(options);
    options.group("Context");
    args->session.declare_ctx(options);
    args->session.declare_batch(options);
    args->session.declare_kv(options);
    args->npu.declare(options);
    declare_sampling(options, [args](std::string_view name, const std::string& text) {
        return args->sampling.set(name, text);
    });
    options.hand_over(kChat, [args] {
        return args->interactive || (!names_prompt(*args) && console::is_terminal(STDIN_FILENO) &&
                                     console::is_terminal(STDOUT_FILENO));
    });
    options.check([args] { return check(*args); });
    return [args] { return Run(*args).run(); };
}

}  // namespace

const Command kRun = {
    .name = "run",
    .summary = "complete a prompt, or chat when there is none",
    .help =
        "Continues a prompt and prints the text while it is generated. Ctrl-C stops; a second Ctrl-C quits "
        "at once. Without a prompt on a terminal it is tessera chat.",
    .examples =
        "  tessera run model.gguf \"Once upon a time\"\n"
        "  tessera run -p \"Once upon a time\"             the default model\n"
        "  tessera run model.gguf -f story.txt -n -1     a file, until the model ends\n"
        "  echo \"The captain\" | tessera run model.gguf - --temp 0\n"
        "  tessera run model.gguf \"One\" --seed 1 --json | jq .text\n"
        "  tessera run model.gguf --chat --system \"Be brief.\" \"Who was Ada Lovelace?\"\n"
        "  tessera run model.gguf \"Ada:\" --json-schema @person.json\n",
    .declare = declare_run,
    .common =
        "--prompt --file --n-predict --chat --system --json-schema --ctx --threads --temp --top-p --top-k "
        "--seed --stop --json --stats --help --help-all"};

}  // namespace tessera
