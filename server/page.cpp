// The chat page at /. Its files are static, and the page is an ordinary client of the routes: /props and
// /openapi.json describe the model. The headers let the browser load only these files and connect only to
// this server, so that a model's text is displayed and nothing else.
#include "server/page.h"

#include "server/error.h"
#include "server/routes.h"
#include "server/service.h"

namespace tessera::server {

namespace {

struct ContentType {
    const char* ending;
    const char* name;
};
constexpr ContentType kContentTypes[] = {{".js", "text/javascript; charset=utf-8"},
                                         {".css", "text/css; charset=utf-8"},
                                         {".svg", "image/svg+xml"},
                                         {"", "text/html; charset=utf-8"}};

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'";

}  // namespace

Response get_page(Service& service, Request& request) {
    if (!service.config.page) throw HttpError(404, "the page is disabled (--no-page)", "", "not_found");
    Response out;
    for (const PageFile& file : page_files()) {
        if (request.path != file.path) continue;
        out.body = file.bytes;
        break;
    }
    for (const ContentType& type : kContentTypes) {
        if (!request.path.ends_with(type.ending)) continue;
        out.content_type = type.name;
        break;
    }
    out.headers = {{"Content-Security-Policy", kPolicy},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cross-Origin-Opener-Policy", "same-origin"},
                   {"Cross-Origin-Resource-Policy", "same-origin"},
                   {"Cache-Control", "no-cache"}};
    return out;
}

}  // namespace tessera::server
