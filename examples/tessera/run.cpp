// tessera run: completes one prompt, printing as it writes. The loop is in Completion::generate(); everything
// else is options, and the report at the end.
#include <unistd.h>

#include <algorithm>

#include "common/cpu.h"
#include "common/log.h"
#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"
#include "src/sample/chain.h"
#include "src/text/detokenizer.h"

namespace tessera {

namespace {

struct RunArgs {
    ModelOptions model;
    SessionFlags session;
    sample::Params sampling;
    std::string dash, prompt, prompt_file;
    bool has_prompt = false, reads_stdin = false;
    int64_t n_predict = 256;
    bool parse_special = false, ignore_eos = false;
    bool echo = false, no_echo = false, stats = false, json = false;

    bool shows_prompt() const { return !json && !no_echo && (echo || console::is_terminal(STDOUT_FILENO)); }
};

enum class Stop { EndOfGeneration, Length, ContextFull, Interrupted };

const char* stop_name(Stop stop) {
    switch (stop) {
        case Stop::EndOfGeneration:
            return "end of generation";
        case Stop::Length:
            return "length";
        case Stop::ContextFull:
            return "context full";
        case Stop::Interrupted:
            return "interrupted";
    }
    return "";
}

/// One prompt and what comes after it.
class Completion {
  public:
    explicit Completion(const RunArgs& args) : args_(args) {}

    Result<void> run();

  private:
    Result<void> load();
    Result<void> read_prompt();
    Result<void> create_chain();
    Result<void> generate();
    Result<void> emit(std::string_view text);
    Result<void> report();
    double prompt_rate() const;
    double decode_rate() const;

    const RunArgs& args_;
    LoadedModel loaded_;
    std::shared_ptr<const text::Tokenizer> tokenizer_;
    std::unique_ptr<engine::Session> session_;
    std::unique_ptr<sample::Chain> chain_;
    std::string prompt_, text_;
    std::vector<int32_t> prompt_ids_, ids_;
    Stop stop_ = Stop::Length;
    double load_seconds_ = 0, prompt_seconds_ = 0, decode_seconds_ = 0;
    bool prompt_done_ = false;
    int64_t n_decoded_ = 0;  // tokens that went through the model after the prompt
};

Result<void> Completion::load() {
    const double start = now_seconds();
    TSR_TRY(gguf::File file, args_.model.file.open());
    TSR_TRY(tokenizer_, load_tokenizer(file));
    TSR_TRY(loaded_, load_model(std::move(file), args_.model));
    if (const int64_t trained = loaded_.model->hparams().n_ctx_train; args_.session.n_ctx > trained)
        log::warn("the model was trained for a context of %lld; beyond it the text may lose its sense",
                  static_cast<long long>(trained));
    TSR_TRY(session_, engine::Session::create(loaded_.model, *loaded_.pool, args_.session.session()));
    load_seconds_ = now_seconds() - start;
    return {};
}

Result<void> Completion::read_prompt() {
    prompt_ = args_.prompt;
    if (!args_.has_prompt) {
        TSR_TRY(prompt_, console::read_all(args_.reads_stdin ? "-" : args_.prompt_file));
        // The line feed that editors and echo put behind a text would make the model start a new line.
        if (prompt_.ends_with('\n')) prompt_.pop_back();
    }
    TSR_TRY(prompt_ids_, tokenizer_->encode(prompt_, {.parse_special = args_.parse_special}));
    if (!args_.parse_special) {
        TSR_TRY(const auto parsed, tokenizer_->encode(prompt_, {.parse_special = true}));
        if (parsed != prompt_ids_)
            log::warn(
                "the prompt spells control tokens, which were read as plain text; --parse-special reads them "
                "as tokens");
    }
    if (prompt_ids_.empty())
        return fail(ErrorCode::InvalidArgument,
                    "prompt: expected some text, found none, and this model has no token to start from");
    if (static_cast<int64_t>(prompt_ids_.size()) > session_->n_ctx())
        return fail(ErrorCode::InvalidArgument,
                    "prompt: %zu tokens do not fit the context of %lld (a longer context: --ctx N)",
                    prompt_ids_.size(), static_cast<long long>(session_->n_ctx()));
    return {};
}

Result<void> Completion::create_chain() {
    sample::Params params = args_.sampling;
    if (args_.ignore_eos) {
        std::string biases = params.text("logit_bias");
        for (const int32_t id : tokenizer_->vocab().end_ids())
            biases += strf("%s%d-inf", biases.empty() ? "" : ",", id);
        TSR_TRY_VOID(params.set("logit_bias", biases));
    }
    const auto n_vocab = static_cast<int32_t>(loaded_.model->hparams().n_vocab);
    TSR_TRY(sample::Chain chain, sample::Chain::create(params, n_vocab));
    chain_ = std::make_unique<sample::Chain>(std::move(chain));
    for (const int32_t id : prompt_ids_) chain_->accept(id);
    return {};
}

Result<void> Completion::emit(std::string_view text) {
    text_ += text;
    return args_.json ? Result<void>() : console::print(text);
}

/// Prompt in, then one token at a time until something ends it. Ctrl-C is an end like the others.
Result<void> Completion::generate() {
    const console::InterruptGuard guard;
    loaded_.pool->set_abort_flag(&guard.flag());
    log::info("reading a prompt of %zu tokens", prompt_ids_.size());
    double start = now_seconds();
    Result<void> done = eval_prompt(*session_, prompt_ids_, args_.session.n_batch);
    prompt_seconds_ = now_seconds() - start;
    prompt_done_ = done.has_value();

    text::Detokenizer detokenizer(*tokenizer_, {.at_text_start = false});
    start = now_seconds();
    while (done) {
        if (guard.interrupted()) {
            stop_ = Stop::Interrupted;
            break;
        }
        if (args_.n_predict >= 0 && static_cast<int64_t>(ids_.size()) >= args_.n_predict) break;
        const int32_t id = chain_->sample(session_->logits());
        if (!args_.ignore_eos && tokenizer_->vocab().is_end(id)) {
            stop_ = Stop::EndOfGeneration;
            break;
        }
        chain_->accept(id);
        ids_.push_back(id);
        TSR_TRY_VOID(emit(detokenizer.push(id)));
        if (args_.n_predict >= 0 && static_cast<int64_t>(ids_.size()) >= args_.n_predict) break;
        if (session_->n_tok() == session_->n_ctx()) {
            stop_ = Stop::ContextFull;
            break;
        }
        done = session_->eval({&id, 1});
        n_decoded_ += done ? 1 : 0;
    }
    decode_seconds_ = now_seconds() - start;
    loaded_.pool->set_abort_flag(nullptr);
    if (!done && done.error().code != ErrorCode::Cancelled) return done;
    if (!done) stop_ = Stop::Interrupted;
    return emit(detokenizer.flush());
}

double Completion::prompt_rate() const {
    return prompt_seconds_ > 0 ? static_cast<double>(prompt_ids_.size()) / prompt_seconds_ : 0;
}

double Completion::decode_rate() const {
    return decode_seconds_ > 0 ? static_cast<double>(n_decoded_) / decode_seconds_ : 0;
}

Result<void> Completion::report() {
    if (args_.json) {
        const Json object = {
            {"text", text_},
            {"tokens", ids_},
            {"prompt_tokens", prompt_ids_.size()},
            {"stop", stop_name(stop_)},
            {"seed", chain_->seed()},
            {"timings",
             {{"load_ms", rounded(load_seconds_ * 1e3)},
              {"prompt_ms", rounded(prompt_seconds_ * 1e3)},
              {"prompt_tokens_per_s", rounded(prompt_done_ ? prompt_rate() : 0)},
              {"decode_ms", rounded(decode_seconds_ * 1e3)},
              {"decode_tokens_per_s", rounded(decode_rate())}}},
            {"peak_rss_bytes", peak_rss_bytes()},
            {"isa", loaded_.isa->name},
            {"threads", loaded_.pool->n_threads()},
        };
        TSR_TRY_VOID(console::print(json_line(object)));
    }
    if (stop_ == Stop::ContextFull)
        console::note("the context of %lld positions is full (a longer one: --ctx N)",
                      static_cast<long long>(session_->n_ctx()));
    if (!args_.stats) return {};
    const std::string kv = args_.session.kv_name();
    std::fprintf(stderr, "model    %s\n", loaded_.description().c_str());
    std::fprintf(stderr, "load     %.0f ms\n", load_seconds_ * 1e3);
    if (prompt_done_)
        std::fprintf(stderr, "prompt   %zu tokens in %.0f ms, %.1f tokens/s\n", prompt_ids_.size(),
                     prompt_seconds_ * 1e3, prompt_rate());
    else
        std::fprintf(stderr, "prompt   %zu tokens, interrupted after %.0f ms\n", prompt_ids_.size(),
                     prompt_seconds_ * 1e3);
    std::fprintf(stderr, "decode   %zu tokens in %.0f ms, %.1f tokens/s (stop: %s)\n", ids_.size(),
                 decode_seconds_ * 1e3, decode_rate(), stop_name(stop_));
    std::fprintf(stderr, "memory   %s at peak, KV cache %s (%s, %lld positions)\n",
                 format_bytes(peak_rss_bytes()).c_str(), format_bytes(session_->kv_bytes()).c_str(),
                 kv.c_str(), static_cast<long long>(session_->n_ctx()));
    std::fprintf(stderr, "seed     %llu\n", static_cast<unsigned long long>(chain_->seed()));
    return {};
}

Result<void> Completion::run() {
    TSR_TRY_VOID(load());
    TSR_TRY_VOID(read_prompt());
    TSR_TRY_VOID(create_chain());
    if (args_.shows_prompt()) TSR_TRY_VOID(console::print(prompt_));
    TSR_TRY_VOID(generate());
    if (!args_.json && !text_.ends_with('\n')) TSR_TRY_VOID(console::print("\n"));
    return report();
}

void declare_sampling(Options& options, const std::shared_ptr<RunArgs>& args) {
    options.group("Sampling");
    for (const sample::ParamInfo& param : sample::all_params()) {
        const bool is_text = param.kind == sample::ParamKind::Text;
        const std::string form = is_text                                ? std::string(param.form)
                                 : param.kind == sample::ParamKind::Int ? "N"
                                                                        : "X";
        std::string help(param.help);
        if (!is_text) help += strf(" (default: %g)", param.default_value);
        options.parsed(
            sample::flag_of(param).c_str(), form,
            [args, name = param.name](const std::string& text) { return args->sampling.set(name, text); },
            help);
    }
}

Result<void> check(RunArgs& args) {
    std::string& model = args.model.file.path;
    for (std::string* dash : {&model, &args.dash}) {
        if (*dash != "-") continue;
        args.reads_stdin = true;
        dash->clear();
    }
    if (!args.dash.empty())
        return fail(ErrorCode::InvalidArgument,
                    "expected '-' behind MODEL, found '%s' (a prompt goes behind -p)",
                    printable(args.dash).c_str());
    const int n_prompts = args.has_prompt + !args.prompt_file.empty() + args.reads_stdin;
    if (n_prompts == 0)
        return fail(ErrorCode::InvalidArgument,
                    "a prompt is needed: -p TEXT, -f FILE, or - for standard input");
    if (n_prompts > 1)
        return fail(ErrorCode::InvalidArgument, "expected one of -p, -f and -, found %d of them", n_prompts);
    return {};
}

Action declare(Options& options) {
    auto args = std::make_shared<RunArgs>();
    args->model.declare(options);
    options.positional("STDIN", args->dash, "- reads the prompt from standard input.");
    options.group("Text");
    options.parsed(
        "-p,--prompt", "TEXT",
        [args](const std::string& text) -> Result<void> {
            args->prompt = text;
            args->has_prompt = true;
            return {};
        },
        "The text to go on from.");
    options.text("-f,--file", "FILE", args->prompt_file,
                 "Read it from a file; a line feed at its end is dropped.");
    options.integer("-n,--n-predict", args->n_predict, -1, int64_t{1} << 40,
                    "Tokens to write; -1: until the model ends or the context is full.");
    options.flag("--parse-special", args->parse_special,
                 "The spelling of a control token becomes that token.");
    options.flag("--ignore-eos", args->ignore_eos, "Go on where the model would end.");
    options.flag("--echo", args->echo, "Print the prompt in front, as on a terminal.");
    options.flag("--no-echo", args->no_echo, "Print only what is new, as into a pipe or file.");
    options.flag("--json", args->json, "Print one JSON object at the end instead of the text.");
    options.flag("--stats", args->stats, "Print times and memory on standard error at the end.");
    options.group("Context");
    args->session.declare_ctx(options);
    args->session.declare_batch(options);
    args->session.declare_kv(options);
    declare_sampling(options, args);
    options.check([args] { return check(*args); });
    return [args] { return Completion(*args).run(); };
}

}  // namespace

const Command kRun = {
    .name = "run",
    .summary = "complete a text",
    .help = "Goes on from a prompt, printing as it writes. Ctrl-C ends it; a second one kills it.",
    .examples =
        "  tessera run -p \"Once upon a time\"             the default model, 256 tokens\n"
        "  tessera run model.gguf -f story.txt -n -1     a file, until the model ends\n"
        "  echo \"The captain\" | tessera run model.gguf - --temp 0\n"
        "  tessera run model.gguf -p \"One\" --seed 1 --json | jq .text\n",
    .declare = declare};

}  // namespace tessera
