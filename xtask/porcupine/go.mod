module polyplane/linear

go 1.23.0

require github.com/anishathalye/porcupine v1.0.0
