// Connects the service, the routes and HTTP: authorization, dispatch, error answers, log and metrics. The
// only place where exceptions end.
#include "server/server.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <exception>
#include <optional>

#include "server/error.h"
#include "server/routes.h"
#include "server/service.h"

namespace tessera::server {

namespace {

/// Takes a time that depends on the lengths only.
bool same_key(const std::string& given, const std::string& key) {
    unsigned different = given.size() != key.size();
    for (size_t i = 0; i < given.size(); i++)
        different |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key[i % key.size()]);
    return different == 0;
}

bool knows_key(const Request& request, const std::vector<std::string>& keys) {
    const std::string bearer = request.header("Authorization");
    const std::string given = bearer.starts_with("Bearer ") ? bearer.substr(7) : request.header("X-Api-Key");
    bool known = false;
    for (const std::string& key : keys)
        known |= same_key(given, key);  // compares with all, so that the time tells nothing
    return known;
}

bool is_loopback(std::string_view host) {
    return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// Whether a Host header names this machine for certain: an IP address, or localhost.
bool is_local_name(std::string_view host) {
    if (host.starts_with('[')) return true;
    const std::string_view name = host.substr(0, host.find(':'));
    return name == "localhost" || name.ends_with(".localhost") ||
           name.find_first_not_of("0123456789.") == std::string_view::npos;
}

Response error_response(int status, const std::string& message, const std::string& param = "",
                        const std::string& code = "") {
    Response out;
    out.status = status;
    out.body = error_body(status, message, param, code);
    return out;
}

std::string time_text() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    tm parts{};
    ::gmtime_r(&now.tv_sec, &parts);
    char text[64];
    const size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    std::snprintf(text + n, sizeof text - n, ".%03ldZ", now.tv_nsec / 1000000);
    return text;
}

}  // namespace

struct Server::Impl {
    explicit Impl(Config given)
        : config(std::move(given)),
          service(config),
          http({[this](const Request& request, Response& early) { return before_body(request, early); },
                [this](Request& request) { return handle(request); },
                [this](const Request& request, int status, double seconds) {
                    done(request, status, seconds);
                }},
               config.limits) {
        if (!config.tls_certificate.empty()) http.use_tls(config.tls_certificate, config.tls_key);
        port = http.bind(config.host, config.port);
    }

    bool before_body(const Request& request, Response& early);
    Response handle(Request& request);
    Response failed(const Request& request, const std::exception& error);
    void done(const Request& request, int status, double seconds);
    void add_cors(const Request& request, Response& response) const;
    void log(const Json& line) const {
        if (config.log) config.log(dump(line));
    }

    const Config config;
    Service service;
    HttpServer http;
    int port = 0;
};

bool Server::Impl::before_body(const Request& request, Response& early) {
    // Browsers send the origin of the page. Pages of other sites are refused unless they are listed. With DNS
    // rebinding a foreign site's origin can equal the Host header, so a server without keys that listens on
    // this machine only accepts addresses and localhost as its own origin.
    const std::string origin = request.header("Origin");
    const auto& allowed = config.cors_origins;
    const bool listed = std::find(allowed.begin(), allowed.end(), origin) != allowed.end();
    const std::string host = request.header("Host");
    const bool own = (origin == "http://" + host || origin == "https://" + host) &&
                     (!config.keys.empty() || !is_loopback(config.host) || is_local_name(host));
    bool method_fits = false;
    const Route* route = find_route(request.method, request.path, method_fits);
    if (!origin.empty() && !listed && !own) {
        early = error_response(403, "requests from this web page's origin are not allowed (--cors-origin)");
    } else if (!route) {
        early = error_response(404, "unknown route " + shown(request.path), "", "not_found");
    } else if (request.method == "OPTIONS" && listed) {
        early.status = 204;
        early.headers = {
            {"Access-Control-Allow-Methods", std::string(route->method) + ", OPTIONS"},
            {"Access-Control-Allow-Headers", "Authorization, Content-Type, X-Api-Key, X-Request-Id"},
            {"Access-Control-Max-Age", "600"}};
    } else if (!method_fits) {
        early = error_response(
            405, std::string("the route expects ") + route->method + ", found " + shown(request.method));
        early.headers.emplace_back("Allow", route->method);
    } else if (!route->is_public && !config.keys.empty() && !knows_key(request, config.keys)) {
        early = error_response(401, "the request has no valid key (Authorization: Bearer KEY)", "",
                               "invalid_api_key");
        early.headers.emplace_back("WWW-Authenticate", "Bearer");
    } else {
        return false;
    }
    add_cors(request, early);
    return true;
}

void Server::Impl::add_cors(const Request& request, Response& response) const {
    if (config.cors_origins.empty()) return;
    response.headers.emplace_back("Vary", "Origin");
    const std::string origin = request.header("Origin");
    if (std::find(config.cors_origins.begin(), config.cors_origins.end(), origin) !=
        config.cors_origins.end())
        response.headers.emplace_back("Access-Control-Allow-Origin", origin);
}

Response Server::Impl::handle(Request& request) {
    Response out;
    try {
        bool method_fits = false;
        out = find_route(request.method, request.path, method_fits)->handle(service, request);
    } catch (const tessera_api::Error& error) {
        try {
            rethrow(error);
        } catch (const HttpError& mine) {
            out = error_response(mine.status, mine.what(), mine.param, mine.code);
        } catch (const std::exception& other) {
            out = failed(request, other);
        }
    } catch (const HttpError& error) {
        out = error_response(error.status, error.what(), error.param, error.code);
        if (error.retry_after_s > 0)
            out.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
    } catch (const std::exception& error) {
        out = failed(request, error);
    }
    add_cors(request, out);
    return out;
}

Response Server::Impl::failed(const Request& request, const std::exception& error) {
    log({{"time", time_text()}, {"level", "error"}, {"id", request.id}, {"error", error.what()}});
    return error_response(500, "the server failed; its log has request " + request.id);
}

void Server::Impl::done(const Request& request, int status, double seconds) {
    bool method_fits = false;
    const Route* route = find_route(request.method, request.path, method_fits);
    service.metrics.count_response(route ? route->path : "", status);
    service.metrics.observe(Metrics::kRequest, seconds);
    Json line = {{"time", time_text()},
                 {"level", status == 500 || request.failed ? "error" : "info"},
                 {"id", request.id},
                 {"method", request.method},
                 {"path", shown(request.path)},
                 {"status", status},
                 {"ms", static_cast<int64_t>(seconds * 1e6) / 1000.0}};
    if (request.n_generated > 0) {
        line["prompt_tokens"] = request.n_prompt;
        line["completion_tokens"] = request.n_generated;
    }
    log(line);
}

Server::Server(Config config) : impl_(std::make_unique<Impl>(std::move(config))) {}
Server::~Server() = default;

std::string Server::address() const {
    const std::string& host = impl_->config.host;
    if (host.find('/') != std::string::npos) return "unix:" + host;
    const std::string scheme = impl_->config.tls_certificate.empty() ? "http://" : "https://";
    return scheme + (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" +
           std::to_string(impl_->port);
}

void Server::run() { impl_->http.run(impl_->config.grace_s); }
void Server::stop() { impl_->http.stop(); }

}  // namespace tessera::server
