// The owning classes of tessera.hpp, each used once as a program would.
#include "include/tessera.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera_api {
namespace {

const std::string kModelPath = std::string(TSR_SOURCE_DIR) + "/models/tessera-tiny.gguf";
const char* const kRequest = R"({"messages": [{"role": "user", "content": "Stop!"}],
    "tools": [{"name": "stop", "parameters": {"type": "object", "additionalProperties": false}}]})";

TEST(Hpp, a_call_through_an_engine) {
    const Model model(kModelPath);
    const Chat chat(model);
    const Prompt prompt = chat.render(kRequest);
    EXPECT_EQ(prompt.tokens().size(), prompt.info().n_tokens);
    EXPECT_NE(prompt.text().find("Stop!"), std::string::npos);
    Parser parser(prompt);
    tsr_engine_options options{};
    options.n_ctx = 1024;
    Engine engine(model, options);
    Request request;
    request.tokens = prompt.tokens();
    request.flags = TSR_SHOW_SPECIAL_TEXT;
    request.grammar = prompt.calls(true);
    request.max_tokens = 100;
    request.client = "me";
    int64_t n_read = 0;
    request.on_prompt = [&](int32_t, int64_t n, int64_t) { n_read = n; };
    request.on_delta = [&](const tsr_delta& delta) { parser.push({delta.text, delta.n_text}); };
    engine.submit(request).wait();
    parser.finish();
    EXPECT_EQ(n_read, static_cast<int64_t>(request.tokens.size()));
    const Answer answer = parser.answer();
    EXPECT_EQ(answer.content, "");
    ASSERT_EQ(answer.calls.size(), 1u);
    EXPECT_EQ(answer.calls[0].name, "stop");
    EXPECT_EQ(answer.calls[0].arguments, "{}");
    int n_calls = 0;
    while (const auto piece = parser.next()) n_calls += piece->kind == TSR_PIECE_CALL;
    EXPECT_EQ(n_calls, 1);
}

TEST(Hpp, a_session_with_a_grammar_and_an_embedding) {
    const Model model(kModelPath);
    tsr_session_options options{};
    options.n_ctx = 64;
    Session session(model, options, {{"temperature", "0"}});
    session.eval(model.tokenize("It is"));
    session.constrain(Grammar::regex("[0-9]{3}"));
    std::vector<std::int32_t> written;
    for (std::int32_t id = session.step(); !model.is_end(id); id = session.step()) written.push_back(id);
    EXPECT_EQ(model.detokenize(written).size(), 3u);
    session.lift_constraint();
    EXPECT_NO_THROW(session.step());
    const std::vector<float> row = session.embed(model.tokenize("A ship"));
    EXPECT_NEAR(std::inner_product(row.begin(), row.end(), row.begin(), 0.0), 1, 1e-5);
    session.cancel();
    try {
        session.eval({1});
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.status(), TSR_CANCELLED);
    }
}

TEST(Hpp, errors_and_names) {
    const Model model(kModelPath);
    EXPECT_THROW(Grammar::gbnf("root ::= ("), Error);
    EXPECT_NO_THROW(Grammar::json_schema("{}"));
    EXPECT_NO_THROW(Grammar::json_object());
    EXPECT_THROW(Chat(model, {}).render("{}"), Error);
    EXPECT_THROW(model.infill({}), Error);
    EXPECT_THROW(quantize(kModelPath, kModelPath, {}), Error);
    const auto types = names(TSR_LIST_QUANTIZATIONS);
    EXPECT_NE(std::find(types.begin(), types.end(), "Q4_K_M"), types.end());
}

}  // namespace
}  // namespace tessera_api
