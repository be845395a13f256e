module goguest

go 1.26.0
