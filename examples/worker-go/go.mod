module example.com/gnomon-worker

go 1.21
