// Writing with tessera from C++: two requests side by side over one model.
//   c++ -std=c++17 main.cpp $(pkg-config --cflags --libs tessera) && ./a.out MODEL.gguf
#include <iostream>
#include <string>
#include <tessera.hpp>
#include <vector>

int main(int argc, char** argv) try {
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " MODEL.gguf\n";
        return 2;
    }
    const tessera_api::Model model(argv[1]);
    std::cout << model.info().architecture << ", " << model.info().n_params << " parameters\n";

    tsr_engine_options options{};
    options.n_ctx = 256;
    tessera_api::Engine engine(model, options);
    std::string texts[2];
    const char* const prompts[] = {"Once upon a time", "The captain looked"};
    {
        std::vector<tessera_api::Engine::Ticket> tickets;
        for (int i = 0; i < 2; ++i) {
            tessera_api::Request request;
            request.tokens = model.tokenize(prompts[i]);
            request.max_tokens = 20;
            request.sampling = {{"temperature", "0.8"}, {"seed", "1"}};
            request.on_delta = [&text = texts[i]](const tsr_delta& delta) {
                text.append(delta.text, delta.n_text);
            };
            tickets.push_back(engine.submit(request));
        }
    }
    for (int i = 0; i < 2; ++i) std::cout << prompts[i] << " ..." << texts[i] << '\n';
    return 0;
} catch (const tessera_api::Error& error) {
    std::cerr << tsr_status_name(error.status()) << ": " << error.what() << '\n';
    return 1;
}
