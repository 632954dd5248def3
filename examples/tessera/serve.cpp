// tessera serve: the options of the HTTP server in server/, its keys, and the signals that end it. Like the
// server it uses the installed interface only.
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <exception>

#include "examples/tessera/blas_flag.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/default_model.h"
#include "examples/tessera/dialogue_flags.h"
#include "examples/tessera/model_loading.h"
#include "server/server.h"

namespace tessera {

namespace {

std::atomic<server::Server*> running{nullptr};
static_assert(std::atomic<server::Server*>::is_always_lock_free);  // a signal handler may touch no other

void on_signal(int) {
    if (server::Server* const server = running.load()) server->stop();
}

struct ServeArgs {
    std::string model;
    SessionFlags session;
    NpuFlags npu;
    int64_t n_threads = 0, port = 8080, n_parallel = 8, n_queue = 256, n_connections = 256;
    int64_t body_mib = 32, grace_s = 30, read_s = 60;
    bool precise = false, blas = false, force = false, no_page = false;
    std::string host = "127.0.0.1", alias, key_file, chat_template, tls_cert, tls_key;
    std::vector<std::string> origins;
};

/// The lines of the file or of the environment variable. An empty file is an error, since it would grant
/// access to everybody.
Result<std::vector<std::string>> read_keys(const ServeArgs& args) {
    std::string text;
    if (const char* named = std::getenv("TESSERA_API_KEY"); named && *named) text = named;
    const bool from_file = !args.key_file.empty();
    if (from_file) {
        TSR_TRY(text, console::read_all(args.key_file));
    }
    std::vector<std::string> keys;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find_first_of("\r\n", at), text.size());
        if (end > at) keys.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    if (from_file && keys.empty())
        return fail(ErrorCode::InvalidArgument,
                    "--api-key-file: expected a key on each line of '%s', found none", args.key_file.c_str());
    return keys;
}

Result<server::Config> configure(const ServeArgs& args) {
    server::Config out;
    TSR_TRY(out.model_path, model_path(args.model));
    TSR_TRY(out.keys, read_keys(args));
    if (!args.chat_template.empty()) {
        TSR_TRY(out.chat_template, named_template(args.chat_template));
    }
    if (args.tls_cert.empty() != args.tls_key.empty())
        return fail(ErrorCode::InvalidArgument, "%s: expected --tls-cert and --tls-key together",
                    args.tls_cert.empty() ? "--tls-key" : "--tls-cert");
    out.tls_certificate = args.tls_cert;
    out.tls_key = args.tls_key;
    out.model_name = args.alias;
    out.model.n_threads = out.engine.n_threads = static_cast<int32_t>(args.n_threads);
    out.model.precise = args.precise;
    out.model.blas = args.blas;
    out.engine.n_ctx = args.session.n_ctx;
    out.engine.n_batch = args.session.n_batch;
    out.engine.max_running = args.n_parallel;
    out.engine.max_queue = args.n_queue;
    out.host = args.host;
    out.port = static_cast<int>(args.port);
    out.page = !args.no_page;
    out.cors_origins = args.origins;
    out.limits.connections = static_cast<int>(args.n_connections);
    out.limits.body_bytes = static_cast<size_t>(args.body_mib) << 20;
    out.limits.body_s = static_cast<double>(args.read_s);
    out.limits.head_s = std::min(out.limits.head_s, out.limits.body_s);
    out.grace_s = static_cast<double>(args.grace_s);
    out.log = [](const std::string& line) { console::note("%s", line.c_str()); };
    return out;
}

Result<void> serve(const ServeArgs& args) {
    TSR_TRY(server::Config config, configure(args));
    const std::string kv = args.session.kv_name();
    const std::string k_type = kv.substr(0, kv.find(',')), v_type = kv.substr(kv.find(',') + 1);
    config.engine.k_type = k_type.c_str();
    config.engine.v_type = v_type.c_str();
    // One context must fit; the engine uses the remaining memory for more.
    tsr_plan_options plan{};
    plan.size = sizeof plan;
    plan.n_ctx = config.engine.n_ctx;
    plan.n_batch = config.engine.n_batch;
    plan.k_type = config.engine.k_type;
    plan.v_type = config.engine.v_type;
    if (!args.force) config.model.must_fit = &plan;
    tsr_npu_options npu;
    config.model.npu = args.npu.c_options(npu);
    try {
        server::Server server(std::move(config));
        running = &server;
        struct sigaction action = {};
        action.sa_handler = on_signal;
        for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
            struct sigaction earlier = {};
            ::sigaction(signal, nullptr, &earlier);
            if (signal == SIGTERM || earlier.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
        }
        TSR_TRY_VOID(console::print(server.address() + "\n"));
        server.run();
        running = nullptr;
    } catch (const std::exception& error) {
        return fail(ErrorCode::InvalidArgument, "%s", error.what());
    }
    return {};
}

Action declare_serve(Options& options) {
    auto args = std::make_shared<ServeArgs>();
    options.positional(
        "MODEL", args->model,
        "A GGUF file; of a split model the first part (default: TESSERA_MODEL or the demo model).");
    options.group("Network");
    options.text("--host", "ADDRESS", args->host,
                 "Address to listen on; 0.0.0.0: all interfaces; a path with a / is a unix socket. (default: "
                 "127.0.0.1)");
    options.integer("--port", args->port, 0, 65535,
                    "Port to listen on; 0: any free one. The address is the first line of output.");
    options.text(
        "--api-key-file", "FILE", args->key_file,
        "Accept only requests with one of these keys, one per line. Without it, the environment variable "
        "TESSERA_API_KEY is used in the same way.");
    options.repeated(
        "--cors-origin", "ORIGIN",
        [args](const std::string& text) -> Result<void> {
            if (!text.starts_with("http://") && !text.starts_with("https://"))
                return fail(ErrorCode::InvalidArgument,
                            "expected an origin such as https://example.org, found '%s'", text.c_str());
            args->origins.push_back(text);
            return {};
        },
        "Allow cross-origin requests from web pages of this origin. May be given several times; default: "
        "none.");
    options.text("--tls-cert", "FILE", args->tls_cert,
                 "Serve HTTPS with this PEM certificate, followed in the file by intermediate ones, if any.");
    options.text("--tls-key", "FILE", args->tls_key, "The certificate's private key, in PEM.");
    options.flag("--no-page", args->no_page, "Do not serve the chat page at /.");
    options.group("Requests");
    options.integer("--parallel", args->n_parallel, 1, 256,
                    "Completions that run at once; further ones wait in the queue.");
    options.integer("--queue", args->n_queue, 1, 1 << 20,
                    "Completions that may wait; further ones get HTTP 429.");
    options.integer("--connections", args->n_connections, 1, 400,
                    "Clients that may be connected at once; further ones get HTTP 503.");
    options.integer("--max-body", args->body_mib, 1, 1024, "Largest request body, in MiB.");
    options.integer("--read-timeout", args->read_s, 1, 3600,
                    "Seconds within which a request's body must arrive.");
    options.integer(
        "--grace", args->grace_s, 0, 86400,
        "Seconds that running requests have after SIGTERM or Ctrl-C; a second signal ends them at once.");
    options.group("Model");
    options.text("--alias", "NAME", args->alias, "The model's name for clients; default: the file's name.");
    options.text("--chat-template", "FILE|NAME", args->chat_template,
                 "Use this template instead of the model's.");
    options.flag("--precise", args->precise, "Use float activations instead of int8: slower, more precise.");
    declare_blas(options, args->blas);
    options.flag("--force", args->force,
                 "Load the model even if the memory estimate (tessera plan) does not fit.");
    options.integer("-t,--threads", args->n_threads, 0, 1024,
                    "Worker threads; 0: the physical cores that this process may use.");
    args->session.declare_ctx(options);
    args->session.declare_batch(options);
    args->session.declare_kv(options);
    args->npu.declare(options);
    options.check([args, options]() -> Result<void> {
        // The NPU's KV cache holds one sequence.
        if (args->npu.is_on() && !options.given("--parallel")) args->n_parallel = 1;
        return {};
    });
    return [args] { return serve(*args); };
}

}  // namespace

const Command kServe = {
    .name = "serve",
    .summary = "serve an OpenAI- and llama.cpp-compatible HTTP API",
    .help =
        "Serves a model over HTTP, with a chat page and interfaces compatible with OpenAI's and llama.cpp's. "
        "The log goes to standard error: one line of JSON per request, without its text.",
    .examples =
        "  tessera serve model.gguf                                  http://127.0.0.1:8080, a chat page\n"
        "  tessera serve model.gguf --port 0 --parallel 16 -c 8192\n"
        "  tessera serve model.gguf --host 0.0.0.0 --api-key-file keys.txt\n"
        "  tessera serve model.gguf --host ./tessera.sock            a unix socket\n",
    .declare = declare_serve,
    .common =
        "--host --port --api-key-file --parallel --alias --chat-template --threads --ctx --kv --help "
        "--help-all"};

}  // namespace tessera
