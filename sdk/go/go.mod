module github.com/graphmill/graphmill/sdk/go

go 1.24
