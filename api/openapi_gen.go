//go:build ignore

// Writes the OpenAPI description to docs/openapi.json.
package main

import (
	"log"
	"os"

	"github.com/graphmill/graphmill/api"
)

func main() {
	doc, err := api.OpenAPI("v1")
	if err == nil {
		err = os.WriteFile("../docs/openapi.json", doc, 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}
