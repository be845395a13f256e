package hosttest_test

import (
	"testing"

	"github.com/graphmill/graphmill/sdk/conformance"
)

func TestGoSDKConforms(t *testing.T) {
	conformance.Run(t, build(t, "../go/conformance"))
}
