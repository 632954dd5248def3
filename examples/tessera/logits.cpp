// tessera logits: every position's logits as numbers, to compare with another engine. Rows are written as
// they are computed, so memory does not grow with the number of tokens; a regular file appears under its name
// only when it is complete.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"
#include "ggml-like/gguf/output_file.h"

namespace tessera {

namespace {

struct LogitsArgs {
    ModelOptions model;
    SessionFlags session{.n_batch = 128};
    NpuFlags npu;
    std::vector<int32_t> tokens;
    std::string out;
    bool json = false;
};

/// A regular file, which appears when it is complete, or a stream that is written at once.
class Destination {
  public:
    static Result<std::unique_ptr<Destination>> open(const std::string& path) {
        std::unique_ptr<Destination> to(new Destination);
        to->name_ = path == "-" ? "standard output" : "'" + printable(path, 400) + "'";
        std::error_code ignored;
        const auto status = std::filesystem::status(path, ignored);
        if (path == "-") {
            to->fd_ = STDOUT_FILENO;
        } else if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
            to->fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
            if (to->fd_ < 0)
                return fail(ErrorCode::Io, "cannot open %s: %s", to->name_.c_str(),
                            std::generic_category().message(errno).c_str());
            to->owned_ = true;
        } else {
            console::note_replacement(path);
            // A symbolic link is kept; its target is replaced.
            const auto target = std::filesystem::canonical(path, ignored);
            TSR_TRY_VOID(to->file_.create(ignored ? path : target.string()));
        }
        return to;
    }
    ~Destination() {
        if (owned_) ::close(fd_);
    }

    Result<void> append(std::span<const std::byte> bytes) {
        return fd_ < 0 ? file_.append(bytes) : console::write_all(fd_, bytes, name_);
    }
    Result<void> finish() { return fd_ < 0 ? file_.commit() : Result<void>(); }

  private:
    Destination() = default;

    gguf::OutputFile file_;
    std::string name_;
    int fd_ = -1;
    bool owned_ = false;
};

Result<void> write_logits(const LogitsArgs& args) {
    const auto n_tok = static_cast<int64_t>(args.tokens.size());
    engine::SessionOptions options = args.session.session();
    options.n_ctx = n_tok;
    options.n_batch = options.max_out = std::min(options.n_batch, n_tok);
    TSR_TRY(gguf::File file, args.model.file.open());
    TSR_TRY(auto npu, load_npu(args.npu, args.model.file));
    TSR_TRY(LoadedModel loaded, load_model(std::move(file), args.model, {options}, npu.get()));
    options.npu = std::move(npu);
    TSR_TRY(const auto session, engine::Session::create(loaded.model, *loaded.pool, options));
    const int64_t n_vocab = loaded.model->hparams().n_vocab;

    TSR_TRY(const auto to, Destination::open(args.out));
    const int32_t header[] = {static_cast<int32_t>(n_tok), static_cast<int32_t>(n_vocab)};
    Result<void> written = to->append(std::as_bytes(std::span(header)));
    const auto append_rows = [&](int64_t, int64_t n_rows, const float* rows) {
        const std::span values(rows, static_cast<size_t>(n_rows * n_vocab));
        if (written) written = to->append(std::as_bytes(values));
        return written.has_value();
    };
    const console::InterruptGuard guard(console::Signals::Ending);
    loaded.pool->set_abort_flag(&guard.flag());
    if (auto done = session->eval_all(args.tokens, append_rows); !done && written)
        return tl::unexpected<Error>(console::name_output(std::move(done.error()), args.out));
    TSR_TRY_VOID(written);
    TSR_TRY_VOID(to->finish());
    if (!args.json) return {};
    return console::print(json_line({{"out", args.out}, {"n_tok", n_tok}, {"n_vocab", n_vocab}}));
}

Action declare_logits(Options& options) {
    auto args = std::make_shared<LogitsArgs>();
    args->model.declare(options);
    args->session.declare_batch(options);
    args->session.declare_kv(options);
    args->npu.declare(options);
    options.group("Logits");
    options.parsed(
        "--tokens", "ID,ID,...",
        [args](const std::string& text) -> Result<void> {
            TSR_TRY(args->tokens, parse_ids(text));
            return {};
        },
        "The token ids, from position 0 on.");
    options.text("--out", "FILE", args->out, "The file to write; - is standard output.");
    options.flag("--json", args->json, "Print one JSON object with the sizes; not with --out -.");
    options.check([args]() -> Result<void> {
        if (args->json && args->out == "-")
            return fail(ErrorCode::InvalidArgument, "--json needs standard output; give --out a file");
        if (args->tokens.empty())
            return fail(ErrorCode::InvalidArgument, "--tokens is needed, at least one id");
        if (args->out.empty()) return fail(ErrorCode::InvalidArgument, "--out FILE is needed");
        return {};
    });
    return [args] { return write_logits(*args); };
}

}  // namespace

const Command kLogits = {
    .name = "logits",
    .summary = "write every position's logits to a file",
    .help =
        "Computes the logits at every position of a list of tokens. The file holds int32 n_tok, int32 "
        "n_vocab, then n_tok rows of n_vocab f32, little endian.",
    .examples =
        "  tessera logits model.gguf --tokens 1,5,300,17 --out logits.bin\n"
        "  tessera logits model.gguf --tokens 1,5,300 --precise --kv f32 --out - | sha256sum\n",
    .declare = declare_logits};

}  // namespace tessera
