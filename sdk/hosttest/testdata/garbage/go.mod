module garbage

go 1.24

require github.com/graphmill/graphmill/sdk/go v0.0.0

replace github.com/graphmill/graphmill/sdk/go => ../../../go
