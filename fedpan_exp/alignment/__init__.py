"""What is true of any network with interchangeable neurons."""
